//! [`Episodes`] and [`ShadowEpisodes`]: choose which of many equal events are logged.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time;
use tracing::instrument::WithSubscriber as _;

use crate::pace;

/// The time without an event after which the next one begins a new episode.
const QUIET: Duration = Duration::from_secs(60);
/// The most episodes at a time. Events of further episodes are left out, so that texts made up by
/// clients cannot flood the log.
const MOST: usize = 64;
/// How an error begins about a policy that the limiter does not have.
pub(crate) const NO_POLICY: &str = "the limiter has no policy";

/// The recent events of one name, and the time of the last of each. Events are kept as hashes, so
/// that long texts take no memory.
#[derive(Debug)]
pub(crate) struct Episodes(LazyLock<Mutex<HashMap<(bool, u64), Instant>>>);

impl Episodes {
    pub(crate) const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    /// `true` if an event with this rule and text is the first of its episode.
    pub(crate) fn begins(&self, rule: &str, text: &str) -> bool {
        self.begins_at(Instant::now(), rule, text)
    }

    fn begins_at(&self, now: Instant, rule: &str, text: &str) -> bool {
        // A client may choose the name of a policy: those that are unknown have room of their own.
        let kind = text.contains(NO_POLICY);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let event = (kind, last.hasher().hash_one((rule, text)));
        let is_over = |last: &Instant| now.saturating_duration_since(*last) >= QUIET;
        if let Some(last) = last.get_mut(&event) {
            return is_over(&std::mem::replace(last, now));
        }
        last.retain(|_, last| !is_over(last));
        let has_place = last.keys().filter(|(of, _)| *of == kind).count() < MOST;
        if has_place {
            last.insert(event, now);
        }
        has_place
    }
}

/// The rules in shadow mode that would refuse now, by name. The first refusal of an episode is
/// logged, and the number of refusals when it ends.
#[derive(Debug)]
pub(super) struct ShadowEpisodes {
    going: LazyLock<Mutex<HashMap<&'static str, ShadowEpisode>>>,
    /// Logs the end of an episode, with its rule and its number of refusals.
    log_end: fn(&str, u64),
}

#[derive(Debug)]
struct ShadowEpisode {
    /// The time of the last refusal, by tokio's clock: a task logs the end of an episode.
    last: time::Instant,
    refusals: u64,
    /// The task that ends the episode, if its first call had a runtime with timers.
    end: Option<AbortHandle>,
}

impl ShadowEpisode {
    fn is_over(&self, now: time::Instant) -> bool {
        now.saturating_duration_since(self.last) >= QUIET
    }
}

impl ShadowEpisodes {
    pub(super) const fn new(log_end: fn(&str, u64)) -> Self {
        Self {
            going: LazyLock::new(Mutex::default),
            log_end,
        }
    }

    /// Counts a refusal. `true` if it is the first of its episode.
    pub(super) fn begins(&'static self, rule: &'static str) -> bool {
        let now = time::Instant::now();
        let mut all = self.lock();
        // One whose runtime ended before it; and others only for their places.
        let is_full = all.len() >= MOST;
        let over = all.extract_if(|of, episode| (is_full || *of == rule) && episode.is_over(now));
        let over: Vec<_> = over.collect();
        let begins = !all.contains_key(rule);
        if !begins || all.len() < MOST {
            let episode = all.entry(rule).or_insert(ShadowEpisode {
                last: now,
                refusals: 0,
                end: None,
            });
            episode.last = now;
            episode.refusals += 1;
            if episode.end.as_ref().is_none_or(AbortHandle::is_finished) {
                let end = |runtime: Handle| runtime.spawn(self.end(rule).with_current_subscriber());
                episode.end = pace::runtime()
                    .ok()
                    .map(|runtime| end(runtime).abort_handle());
            }
        }
        let has_place = all.contains_key(rule);
        drop(all);
        for (rule, episode) in over {
            (self.log_end)(rule, episode.refusals);
        }
        begins && has_place
    }

    /// Waits for the end of a rule's episode, and logs it.
    async fn end(&'static self, rule: &'static str) {
        while let Some(last) = self.last_of(rule) {
            time::sleep_until(last + QUIET).await;
            let now = time::Instant::now();
            let over = {
                let mut all = self.lock();
                let is_over = all.get(rule).is_some_and(|episode| episode.is_over(now));
                is_over.then(|| all.remove(rule)).flatten()
            };
            if let Some(episode) = over {
                return (self.log_end)(rule, episode.refusals);
            }
        }
    }

    fn last_of(&self, rule: &str) -> Option<time::Instant> {
        self.lock().get(rule).map(|episode| episode.last)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<&'static str, ShadowEpisode>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_logged_once_until_it_was_quiet_for_a_minute() {
        let (episodes, start) = (Episodes::new(), Instant::now());
        let told = |seconds, rule, text| {
            episodes.begins_at(start + Duration::from_secs(seconds), rule, text)
        };
        assert!(told(0, "login", "no policy"));
        assert!(told(0, "login", "another text") && told(0, "signup", "no policy"));
        // As long as it goes on, however long that is.
        for second in 1..200 {
            assert!(!told(second, "login", "no policy"), "{second}");
        }
        assert!(!told(258, "login", "no policy"));
        assert!(told(318, "login", "no policy"));
        assert!(!told(319, "login", "no policy"));
    }

    /// Of policies that a rule names for each call, a client may choose the name.
    #[test]
    fn unknown_policies_take_no_room_of_other_mistakes() {
        let (episodes, now) = (Episodes::new(), Instant::now());
        let unknown = |name: &usize| episodes.begins_at(now, "", &format!("{NO_POLICY} {name}"));
        assert_eq!((0..10 * MOST).filter(unknown).count(), MOST);
        assert!(episodes.begins_at(now, "", "a wrong password"));
    }

    #[test]
    fn any_number_of_texts_is_a_bounded_number_of_lines() {
        let (episodes, start) = (Episodes::new(), Instant::now());
        for (after, lines) in [(Duration::ZERO, MOST), (QUIET / 2, 0), (QUIET * 2, MOST)] {
            let told =
                (0..10 * MOST).filter(|n| episodes.begins_at(start + after, "", &n.to_string()));
            assert_eq!(told.count(), lines);
        }
    }
}

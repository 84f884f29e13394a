//! [`Episodes`]: which of many events that say the same are written to the log.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After so long without an event, the next one begins a new episode.
const QUIET: Duration = Duration::from_secs(60);
/// How many episodes go on at a time. Events of further ones are left out, so that texts made up by
/// clients cannot flood the log.
const MOST: usize = 64;

/// The recent events of one name, with the time of the last of each. They are kept as hashes, so
/// that long texts take no memory.
#[derive(Debug)]
pub(crate) struct Episodes(LazyLock<Mutex<HashMap<u64, Instant>>>);

impl Episodes {
    pub(crate) const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    /// Whether an event of this rule, with this text, is the first of its episode.
    pub(crate) fn begins(&self, rule: &str, text: &str) -> bool {
        self.begins_at(Instant::now(), rule, text)
    }

    fn begins_at(&self, now: Instant, rule: &str, text: &str) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let event = last.hasher().hash_one((rule, text));
        let is_over = |last: &Instant| now.saturating_duration_since(*last) >= QUIET;
        if let Some(last) = last.get_mut(&event) {
            return is_over(&std::mem::replace(last, now));
        }
        if last.len() >= MOST {
            last.retain(|_, last| !is_over(last));
        }
        let has_place = last.len() < MOST;
        if has_place {
            last.insert(event, now);
        }
        has_place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_once_until_it_was_quiet_for_a_minute() {
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

    #[test]
    fn texts_without_number_are_a_bounded_number_of_lines() {
        let (episodes, start) = (Episodes::new(), Instant::now());
        for (after, lines) in [(Duration::ZERO, MOST), (QUIET / 2, 0), (QUIET * 2, MOST)] {
            let told =
                (0..10 * MOST).filter(|n| episodes.begins_at(start + after, "", &n.to_string()));
            assert_eq!(told.count(), lines);
        }
    }
}

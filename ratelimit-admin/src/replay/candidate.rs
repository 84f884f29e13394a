//! [`Candidate`]: a rule to try on a log, and what it would refuse.

use std::str::FromStr;
use std::time::Duration;

use indicatif::ProgressBar;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Key, Limit, MemoryStore, ParseError, Policy, RateLimitError, RateLimiter, Rule,
};

use crate::replay::log::Log;

/// The settings that change what a call does, but not the limits' decision.
const UNUSED: [&str; 7] = [
    "wait",
    "prefetch",
    "shadow",
    "timeout",
    "on_unavailable",
    "concurrent",
    "lease",
];

/// A rule as it was written on the command line.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) text: String,
    policy: Policy,
}

impl FromStr for Candidate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let policy = text
            .parse()
            .map_err(|error: ParseError| error.to_string())?;
        match text.split_whitespace().find(|word| UNUSED.contains(word)) {
            Some(word) => Err(format!(
                "a replay only counts what a rule refuses: leave `{word}` out"
            )),
            None => Ok(Self {
                text: text.to_owned(),
                policy,
            }),
        }
    }
}

/// The refusals of a rule.
pub(crate) struct Outcome {
    /// The times of the refusals, in microseconds.
    pub(crate) refused_at: Vec<u64>,
    /// The number of refusals of each key, by the index of the key in the log.
    pub(crate) refused_of_key: Vec<u64>,
    /// The longest `retry_after` of a refusal.
    pub(crate) longest_wait: Duration,
    /// The number of requests refused because their cost exceeds what the rule ever admits.
    pub(crate) too_heavy: u64,
}

/// The limits come from the policy `candidate`; the limit given here is not used.
static RULE: Rule = Rule::new("replay", Limit::per_second(1)).with_policy("candidate");

impl Candidate {
    /// Replays the log under this rule.
    pub(crate) async fn replay(
        &self,
        log: &Log,
        progress: &ProgressBar,
    ) -> Result<Outcome, RateLimitError> {
        let clock = clock_of(log);
        // Room for all keys, so that no key shares a bucket with others.
        let store = MemoryStore::with_capacity(usize::MAX).with_clock(clock.clone());
        let limiter = RateLimiter::builder()
            .store(store)
            .policy("candidate", self.policy.clone())
            .build()?;

        let keys: Vec<Key> = log.keys().iter().map(|key| Key::of(&**key)).collect();
        let mut outcome = Outcome::none(log);
        let mut rule = RULE.clone();
        let (mut now, _) = log.span();
        for request in progress.wrap_iter(log.requests().iter()) {
            let at = request.at + request.after;
            clock.advance(Duration::from_micros(at - now));
            now = at;
            if rule.cost() != request.cost {
                rule = RULE.with_cost(request.cost);
            }
            let key = &keys[request.key];
            let admitted = match request.actual_cost {
                // A reservation would move the next request of the key by a microsecond.
                Some(0)
                    if limiter
                        .peek(&rule, key)
                        .await
                        .is_ok_and(|decision| decision.is_allowed()) =>
                {
                    Ok(())
                }
                None => limiter.acquire(&rule, key).await.map(drop),
                Some(cost) => limiter
                    .reserve(&rule, key)
                    .await
                    .map(|reservation| reservation.commit(cost)),
            };
            match admitted {
                Ok(()) => continue,
                Err(RateLimitError::Exceeded(decision)) => {
                    outcome.longest_wait = outcome
                        .longest_wait
                        .max(decision.retry_after().unwrap_or_default());
                }
                Err(RateLimitError::CostExceedsLimit { .. }) => outcome.too_heavy += 1,
                Err(error) => return Err(error),
            }
            outcome.refused_at.push(request.at);
            outcome.refused_of_key[request.key] += 1;
        }
        Ok(outcome)
    }
}

/// A clock that shows the time of the first request, so that calendar periods end where they did in
/// the log. If one is in the first day of 1970, and most are before 1973, they are relative times.
fn clock_of(log: &Log) -> FakeClock {
    const DAY: u64 = 86_400_000_000;
    let ((first, _), requests) = (log.span(), log.requests());
    let middle = requests.get(requests.len() / 2);
    let clock = FakeClock::new();
    if first > DAY || middle.is_some_and(|request| request.at > 3 * 365 * DAY) {
        clock.step_back(Duration::MAX);
        clock.advance(Duration::from_micros(first));
    }
    clock
}

impl Outcome {
    fn none(log: &Log) -> Self {
        Self {
            refused_at: Vec::new(),
            refused_of_key: vec![0; log.keys().len()],
            longest_wait: Duration::ZERO,
            too_heavy: 0,
        }
    }

    pub(crate) fn refused(&self) -> usize {
        self.refused_at.len()
    }

    pub(crate) fn keys_refused(&self) -> usize {
        self.refused_of_key
            .iter()
            .filter(|refused| **refused > 0)
            .count()
    }

    /// The indices of the keys that it refuses most often, with the number of refusals of each; the
    /// highest number first.
    pub(crate) fn worst_hit(&self, most: usize) -> Vec<(usize, u64)> {
        let mut keys: Vec<(usize, u64)> = self
            .refused_of_key
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, refused)| *refused > 0)
            .collect();
        keys.sort_by_key(|(_, refused)| std::cmp::Reverse(*refused));
        keys.truncate(most);
        keys
    }
}

//! Random calls under every algorithm and several limits, compared with the reference one by one.

use std::time::Duration;

use super::random::Random;
use super::{Bench, Feature};
use crate::store::{Store, Verdict};
use crate::testkit::Reference;
use crate::{Algorithm, Limit};

const KEYS: u64 = 12;
const CALLS: u64 = 80;

/// Calls at random moments, of random cost, under one to three limits whose `max` falls and rises: every field of
/// every verdict is that of the reference.
pub async fn random_calls_agree_with_the_model<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let (cost, several) =
        (bench.capabilities.has(algorithm, Feature::Cost), bench.capabilities.has(algorithm, Feature::Limits));
    let mut random = Random(0xa1f0);
    for nth in 0..KEYS {
        let count = if several { random.within(1, 3) } else { 1 };
        let base: Vec<Limit> = (0..count).map(|_| random_limit(&mut random, algorithm)).collect();
        let mut subject = bench.subject_under(&nth.to_string(), algorithm, &base);
        let mut references = vec![Reference::new(algorithm); base.len()];
        let mut wait = 1;
        for call in 0..CALLS {
            let span = base.iter().map(Limit::window_us).min().unwrap_or(1);
            let ahead = match random.within(0, 9) {
                0 => wait - 1,
                1 | 2 => wait,
                3 => random.within(0, 2 * span),
                4 | 5 => 0,
                _ => random.within(0, span / 4),
            };
            subject.advance(Duration::from_micros(ahead));
            // A token bucket is forgotten when it would be full at the rate it was last charged at: a rate that
            // falls is another case's.
            if random.within(0, 9) == 0 && algorithm != Algorithm::TokenBucket {
                for (limit, base) in subject.limits.iter_mut().zip(&base) {
                    *limit = limit.with_max(random.within(1, 2 * base.max()));
                }
            }
            let least = subject.limits.iter().map(|limit| algorithm.capacity(limit)).min().unwrap_or(1);
            let weight = if cost && random.within(0, 2) == 0 { random.within(0, least) } else { 1 };
            let now = bench.now();
            let peek = random.within(0, 4) == 0;
            let verdict = if peek { subject.peek(weight).await } else { subject.acquire(weight).await };
            let expected = expect(&mut references, &subject.limits, now, weight, peek);
            assert_eq!(
                fields(&verdict),
                expected,
                "call {call} on key {nth}: cost {weight} at {now} under {:?}",
                subject.limits
            );
            wait = verdict.retry_after_us.max(1);
        }
    }
}

fn random_limit(random: &mut Random, algorithm: Algorithm) -> Limit {
    let window = Duration::from_micros(random.within(20_000_000, 3_600_000_000));
    let limit = Limit::new(random.within(1, 40), window);
    match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket if random.within(0, 1) == 0 => {
            limit.with_burst(random.within(1, 60))
        }
        _ => limit,
    }
}

type Fields = (bool, usize, u64, u64, u64);

fn fields(verdict: &Verdict) -> Fields {
    let Verdict { allowed, limit_index, remaining, retry_after_us, reset_after_us, .. } = *verdict;
    (allowed, limit_index, remaining, retry_after_us, reset_after_us)
}

fn expect(references: &mut [Reference], limits: &[Limit], now: u64, cost: u64, peek: bool) -> Fields {
    let waits: Vec<u64> =
        references.iter().zip(limits).map(|(reference, limit)| reference.wait(now, *limit, cost)).collect();
    let allowed = waits.iter().all(|wait| *wait == 0);
    if allowed && !peek {
        for (reference, limit) in references.iter_mut().zip(limits) {
            reference.charge(now, *limit, cost);
        }
    }
    // The longest wait decides, then the least left, then the first.
    let standing = |(index, reference): (usize, &Reference)| {
        let limit = limits.get(index).copied()?;
        let wait = waits.get(index).copied()?;
        Some((allowed, index, reference.remaining(now, limit), wait, reference.reset_after(now, limit)))
    };
    let decisive = references.iter().enumerate().filter_map(standing);
    let decisive = decisive.min_by_key(|(_, index, remaining, wait, _)| (!wait, *remaining, *index));
    decisive.unwrap_or_default()
}

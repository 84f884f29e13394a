//! Random calls under every algorithm and several limits, compared with the reference one by one.

use std::time::Duration;

use crate::bench::{Bench, micros};
use crate::random::Random;
use crate::reference::Reference;
use crate::test_key::TestKey;
use ratelimit_runtime::store::{Feature, Verdict};
use ratelimit_runtime::{Algorithm, Limit};

const KEYS: u64 = 15;
const CALLS: u64 = 80;
/// The heaviest call: a limit holds twice 40 at most.
const HEAVIEST: u64 = 80;

/// Calls at random moments, of random cost, under one to three limits whose `max` falls and rises,
/// with resets in between: every field of every verdict is that of the reference. Of a refusal that
/// a layer repeats, the wait may be that of a lower cost. In the end the clock steps back.
pub(crate) async fn random_calls_agree_with_the_reference(bench: Bench, algorithm: Algorithm) {
    let (costs, several) = (
        bench.takes(algorithm, HEAVIEST).await,
        bench.has(algorithm, Feature::Limits),
    );
    let mut random = Random(0xa1f0);
    for nth in 0..KEYS {
        let count = if several { random.within(1, 3) } else { 1 };
        let base: Vec<Limit> = (0..count).map(|_| random_limit(&mut random)).collect();
        let mut bucket = bench.bucket_under(&nth.to_string(), algorithm, &base);
        let mut references = vec![Reference::new(algorithm); base.len()];
        let mut wait = 1;
        for call in 0..CALLS {
            bucket.advance(Duration::from_micros(random_step(&mut random, &base, wait)));
            // A bucket is forgotten when it would be full at the rate it was last charged at:
            // a rate that falls is another case's.
            if random.within(0, 9) == 0 && !algorithm.has_burst() {
                for (limit, base) in bucket.limits.iter_mut().zip(&base) {
                    *limit = limit.with_max(random.within(1, 2 * base.max()));
                }
            }
            if random.within(0, 49) == 0 {
                bucket.reset().await;
                references.fill(Reference::new(algorithm));
            }
            let least = references
                .iter()
                .zip(&bucket.limits)
                .map(|(reference, limit)| reference.capacity(*limit))
                .min()
                .unwrap_or(1);
            let cost = if costs && random.within(0, 2) == 0 {
                random.within(0, least)
            } else {
                1
            };
            let now = bench.now();
            let peek = random.within(0, 4) == 0;
            let verdict = if peek {
                bucket.peek(cost).await
            } else {
                bucket.acquire(cost).await
            };
            let expected = expect(&mut references, &bucket.limits, now, cost, peek);
            let context = format!(
                "call {call} on key {nth}: cost {cost} at {now} under {:?}",
                bucket.limits
            );
            if verdict.cached {
                let (allowed, .., longest, _) = expected;
                assert!(!allowed && !verdict.allowed, "{context}");
                assert!(verdict.retry_after_us <= longest, "{context}: {verdict:?}");
            } else {
                assert_eq!(fields(&verdict), expected, "{context}");
            }
            wait = verdict.retry_after_us.max(1);
        }
        step_back(&bucket, &references, &mut random).await;
    }
}

fn random_step(random: &mut Random, limits: &[Limit], wait: u64) -> u64 {
    let span = limits
        .iter()
        .map(|limit| micros(limit.window()))
        .min()
        .unwrap_or(1);
    match random.within(0, 9) {
        0 => wait - 1,
        1 | 2 => wait,
        3 => random.within(0, 2 * span),
        4 | 5 => 0,
        _ => random.within(0, span / 4),
    }
}

/// After a step back the references still know what is left: that, and not one more, may be
/// admitted.
async fn step_back(bucket: &TestKey<'_>, references: &[Reference], random: &mut Random) {
    let (now, limits) = (bucket.bench.now(), &bucket.limits);
    let left = references
        .iter()
        .zip(limits)
        .map(|(reference, limit)| reference.remaining(now, *limit))
        .min();
    let left = left.unwrap_or(0);
    let span = limits
        .iter()
        .map(|limit| micros(limit.window()))
        .max()
        .unwrap_or(1);
    bucket
        .bench
        .clock
        .step_back(Duration::from_micros(random.within(1, 2 * span)));
    let mut admitted = 0;
    for _ in 0..left + 5 {
        admitted += u64::from(bucket.acquire(1).await.allowed);
    }
    assert!(
        admitted <= left,
        "{admitted} admitted where {left} were left under {limits:?}"
    );
}

/// Half of them have a burst, under every algorithm: those that have none leave it out.
fn random_limit(random: &mut Random) -> Limit {
    let window = Duration::from_micros(random.within(20_000_000, 3_600_000_000));
    let limit = Limit::new(random.within(1, 40), window);
    if random.within(0, 1) == 0 {
        limit.with_burst(random.within(1, 60))
    } else {
        limit
    }
}

type Fields = (bool, usize, u64, u64, u64);

fn fields(verdict: &Verdict) -> Fields {
    let Verdict {
        allowed,
        limit_index,
        remaining,
        retry_after_us,
        reset_after_us,
        ..
    } = *verdict;
    (
        allowed,
        limit_index,
        remaining,
        retry_after_us,
        reset_after_us,
    )
}

fn expect(
    references: &mut [Reference],
    limits: &[Limit],
    now: u64,
    cost: u64,
    peek: bool,
) -> Fields {
    let waits: Vec<u64> = references
        .iter()
        .zip(limits)
        .map(|(reference, limit)| reference.wait(now, *limit, cost))
        .collect();
    let allowed = waits.iter().all(|wait| *wait == 0);
    if allowed && !peek {
        for (reference, limit) in references.iter_mut().zip(limits) {
            let _ = reference.charge(now, *limit, cost);
        }
    }
    // The longest wait decides, then the least left, then the first.
    let standing = |(index, reference): (usize, &Reference)| {
        let limit = limits.get(index).copied()?;
        let wait = waits.get(index).copied()?;
        Some((
            allowed,
            index,
            reference.remaining(now, limit),
            wait,
            reference.reset_after(now, limit),
        ))
    };
    let decisive = references.iter().enumerate().filter_map(standing);
    let decisive =
        decisive.min_by_key(|(_, index, remaining, wait, _)| (!wait, *remaining, *index));
    decisive.unwrap_or_default()
}

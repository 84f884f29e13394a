//! What calls of any cost use, under every algorithm.

use super::{Bench, Feature, MINUTE, SECOND};
use crate::store::Store;
use crate::{Algorithm, Limit, MAX_COUNT};

/// At one moment as many calls pass as the limit holds, and not one more; a horizon later all of it is free again.
pub async fn at_one_moment_exactly_max_pass<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    for max in [1, 2, 7, 127, 128, 129] {
        let subject = bench.subject(&max.to_string(), algorithm, max);
        for left in (0..max).rev() {
            assert_eq!(subject.admitted(1).await.remaining, left);
        }
        for _ in 0..3 {
            assert_eq!(subject.refused(1).await.remaining, 0);
        }
        subject.advance(subject.horizon());
        subject.assert_whole().await;
    }
}

/// Calls use what they cost, and a light call may pass where a heavy one may not.
pub async fn calls_use_what_they_cost<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 10);
    for (cost, allowed, left) in [(4, true, 6), (7, false, 6), (5, true, 1), (2, false, 1), (1, true, 0), (1, false, 0)]
    {
        let seen = subject.peek(cost).await;
        let done = subject.acquire(cost).await;
        assert_eq!((done.allowed, done.remaining), (allowed, left), "cost {cost}");
        assert_eq!((seen.allowed, seen.retry_after_us), (done.allowed, done.retry_after_us), "cost {cost}");
    }
}

/// The wait that a refusal names is exact for every cost: refused a microsecond before, admitted then.
pub async fn a_refusal_names_the_exact_moment_for_its_cost<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    for cost in [1, 2, 5, 9, 10] {
        let subject = bench.subject(&cost.to_string(), algorithm, 10);
        for used in [3, 1, 4, 2] {
            subject.admit(used).await;
            subject.advance(std::time::Duration::from_micros(1_000_003));
            if subject.remaining().await < 4 {
                break;
            }
        }
        for _ in 0..5 {
            let verdict = subject.acquire(cost).await;
            if !verdict.allowed {
                subject.wait_out(&verdict, cost).await;
                subject.admit(cost).await;
            }
        }
    }
}

/// A refused call, and one that only looks, leave everything as it was.
pub async fn refused_calls_change_nothing<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let heavy = if bench.capabilities.has(algorithm, Feature::Cost) { 5 } else { 1 };
    let subject = bench.subject("asked", algorithm, 5);
    let twin = bench.subject("twin", algorithm, 5);
    for round in 0..60_u32 {
        for key in [&subject, &twin] {
            let _ = key.acquire(1).await;
        }
        for _ in 0..3 {
            if !subject.peek(heavy).await.allowed {
                let _ = subject.acquire(heavy).await;
            }
        }
        assert_eq!(without_ticket(subject.peek(1).await), without_ticket(twin.peek(1).await), "round {round}");
        bench.clock.advance(SECOND * (round % 17) + std::time::Duration::from_micros(7));
    }
}

fn without_ticket(verdict: crate::store::Verdict) -> crate::store::Verdict {
    verdict.with_ticket(0)
}

/// A call of cost 0 is admitted as long as the limit is not exceeded, charges nothing and makes no key.
pub async fn a_cost_of_0_charges_nothing<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let mut subject = bench.subject("", algorithm, 4);
    let free = subject.admitted(0).await;
    assert_eq!((free.remaining, free.ticket), (4, 0));
    assert!(!subject.reset().await, "a call of cost 0 makes no key");
    subject.admit(4).await;
    assert_eq!(subject.admitted(0).await.remaining, 0, "the limit is used up, and not exceeded");
    subject.limits = vec![Limit::per_minute(2).with_burst(1)];
    let exceeded = subject.acquire(0).await;
    assert_eq!(exceeded.remaining, 0);
    assert!(!exceeded.allowed && exceeded.retry_after_us > 0, "{exceeded:?}");
    subject.wait_out(&exceeded, 0).await;
}

/// Each call is held against the `max` it brings. One that falls below what is used refuses until enough is free.
pub async fn max_may_fall_below_what_is_used<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let mut subject = bench.subject("", algorithm, 8);
    for _ in 0..8 {
        subject.admit(1).await;
        subject.advance(std::time::Duration::from_micros(1));
    }
    subject.limits = vec![Limit::per_minute(3)];
    assert_eq!(subject.refused(1).await.remaining, 0);
    for _ in 0..9 {
        let verdict = subject.acquire(1).await;
        if !verdict.allowed {
            subject.wait_out(&verdict, 1).await;
        }
    }
    subject.advance(subject.horizon());
    subject.assert_whole().await;
}

/// A `max` that rises makes room, and never more than it has risen by.
pub async fn max_may_rise<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let mut subject = bench.subject("", algorithm, 5);
    for _ in 0..5 {
        subject.admit(1).await;
    }
    subject.refuse(1).await;
    subject.limits = vec![Limit::per_minute(8)];
    let mut admitted = 0;
    while subject.acquire(1).await.allowed {
        admitted += 1;
        assert!(admitted <= 3, "more than it rose by");
    }
    // A leaky bucket holds time: it runs empty when it would have, and a faster rate fits more into that time.
    let expected = if algorithm == Algorithm::LeakyBucket { 0 } else { 3 };
    assert_eq!(admitted, expected);
    subject.advance(MINUTE * 2);
    subject.assert_whole().await;
}

/// The largest counts are counted as exactly as small ones.
pub async fn the_largest_counts_are_exact<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, MAX_COUNT);
    let half = MAX_COUNT / 2;
    assert_eq!(subject.admitted(half).await.remaining, MAX_COUNT - half);
    assert_eq!(subject.admitted(half).await.remaining, MAX_COUNT - 2 * half);
    let refused = subject.refused(2).await;
    assert_eq!(refused.remaining, 1);
    assert_eq!(subject.admitted(1).await.remaining, 0);
    let refused = subject.refused(MAX_COUNT).await;
    subject.wait_out(&refused, MAX_COUNT).await;
    assert_eq!(subject.admitted(MAX_COUNT).await.remaining, 0);
}

//! How many calls are admitted, and what is left.

use std::collections::BTreeSet;

use tokio::task::JoinSet;

use super::{Bench, Limit, MICROSECOND, MINUTE, SECOND, answered, request};
use crate::MAX_COUNT;
use crate::store::Store;

/// `max` calls are admitted, and not one more.
pub async fn admits_exactly_max<S: Store>(bench: Bench<S>) {
    for max in [1, 2, 3, 10, 127, 128, 129, 200] {
        let mut bucket = bench.bucket(&max.to_string(), max, MINUTE);
        for nth in 1..=max {
            assert!(bucket.acquire().await.allowed, "call {nth} of {max}");
            bucket.advance(MICROSECOND);
        }
        for extra in 1..=5 {
            assert!(!bucket.acquire().await.allowed, "call {max} + {extra}");
            bucket.advance(MICROSECOND);
        }
    }
}

/// Each admission leaves one less, down to 0, and a refusal leaves it at 0.
pub async fn remaining_counts_down<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 5, MINUTE);
    for left in [4, 3, 2, 1, 0, 0, 0] {
        assert_eq!(bucket.acquire().await.remaining, left);
        bucket.advance(SECOND);
    }
}

/// However often a call is refused, the next slot comes free at the same moment, and is there to be taken.
pub async fn a_refusal_consumes_nothing<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 2, MINUTE);
    bucket.admit().await;
    bucket.advance(SECOND);
    bucket.admit().await;
    for second in 1..59_u64 {
        bucket.advance(SECOND);
        let verdict = bucket.acquire().await;
        assert!(!verdict.allowed);
        assert_eq!(verdict.retry_after(), MINUTE - SECOND * u32::try_from(second + 1).unwrap_or_default());
    }
    bucket.advance(SECOND);
    assert!(bucket.acquire().await.allowed, "the first slot is a minute old");
    bucket.advance(SECOND);
    assert!(bucket.acquire().await.allowed, "the second slot is a minute old");
    assert!(!bucket.peek().await.allowed);
}

/// An unused key is whole, and looking at a key leaves it as it is.
pub async fn peek_changes_nothing<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 3, MINUTE);
    for _ in 0..10 {
        let unused = bucket.peek().await;
        assert!(unused.allowed);
        assert_eq!((unused.remaining, unused.retry_after_us, unused.reset_after_us), (3, 0, 0));
    }
    assert!(!bucket.reset().await, "looking makes no key");
    for left in [2, 1, 0] {
        assert_eq!(bucket.acquire().await.remaining, left);
        bucket.advance(SECOND);
        for _ in 0..10 {
            assert_eq!(bucket.peek().await.remaining, left);
        }
    }
    assert_eq!(bucket.peek().await.retry_after(), MINUTE - SECOND * 3);
    bucket.advance(MINUTE);
    assert_eq!(bucket.peek().await.remaining, 3);
}

/// What `peek` says is what `acquire` does at the same moment.
pub async fn peek_agrees_with_the_next_call<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 4, MINUTE);
    for _ in 0..200 {
        bucket.advance(SECOND * 7);
        let seen = bucket.peek().await;
        let done = bucket.acquire().await;
        assert_eq!((seen.allowed, seen.retry_after_us), (done.allowed, done.retry_after_us));
        assert_eq!(seen.remaining, done.remaining + u64::from(done.allowed));
    }
}

/// `reset` forgets everything, and says whether there was something.
pub async fn reset_frees_everything<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 2, MINUTE);
    let mut other = bench.bucket("other", 1, MINUTE);
    other.admit().await;
    assert!(!bucket.reset().await, "an unused key");
    for _ in 0..3 {
        for allowed in [true, true, false] {
            assert_eq!(bucket.acquire().await.allowed, allowed);
            bucket.advance(SECOND);
        }
        assert!(bucket.reset().await, "a used key");
        assert!(!bucket.reset().await, "a key that was reset");
        let whole = bucket.peek().await;
        assert_eq!((whole.remaining, whole.reset_after_us), (2, 0));
    }
    assert!(!other.acquire().await.allowed, "other keys stay as they are");
}

/// What happens to one key happens to no other.
pub async fn keys_are_independent<S: Store>(bench: Bench<S>) {
    let mut buckets: Vec<_> = (0..100).map(|n| bench.bucket(&n.to_string(), 3, MINUTE)).collect();
    for left in [2, 1, 0] {
        for bucket in &mut buckets {
            assert_eq!(bucket.acquire().await.remaining, left);
        }
        bench.clock.advance(SECOND);
    }
    for bucket in &mut buckets {
        assert!(!bucket.acquire().await.allowed);
    }
}

/// A key is bytes: whatever they are, each sequence of them is a key of its own.
pub async fn hostile_keys_are_keys<S: Store>(bench: Bench<S>) {
    let long = vec![b'x'; 64 * 1024];
    let longer = [long.as_slice(), b"x"].concat();
    let suffixes: [&[u8]; 24] = [
        b"",
        b"\0",
        b"\0\0",
        b"\0a",
        b"a\0",
        b"\n",
        b"\r\n",
        b"\r\n$1\r\nx\r\n",
        b" ",
        b"  ",
        b"{",
        b"}",
        b"{}",
        b"{a}",
        b"{a}b",
        b"*",
        b"?",
        b"%00",
        b"\\0",
        b"\xff",
        b"\xff\xfe",
        b"\xc3\xa9",
        &long,
        &longer,
    ];
    let limits = [Limit::new(1, MINUTE)];
    for allowed in [true, false] {
        for suffix in suffixes {
            let key = bench.key(suffix);
            let verdict = answered(bench.store.acquire(request(&key, &limits)).await);
            let shown = String::from_utf8_lossy(suffix.get(..20).unwrap_or(suffix)).into_owned();
            assert_eq!(verdict.allowed, allowed, "key ending in {shown:?}");
        }
    }
}

/// Of 1,000 calls at once, exactly `max` are admitted, and each is told another number of what is left.
pub async fn a_burst_admits_exactly_max<S: Store>(bench: Bench<S>) {
    const MAX: u64 = 100;
    let key: std::sync::Arc<[u8]> = bench.key(b"").into();
    let mut calls = JoinSet::new();
    for _ in 0..1_000 {
        let (store, key) = (std::sync::Arc::clone(&bench.store), std::sync::Arc::clone(&key));
        calls.spawn(async move { store.acquire(request(&key, &[Limit::new(MAX, MINUTE)])).await });
    }
    let mut admitted = Vec::new();
    while let Some(call) = calls.join_next().await {
        let verdict = answered(answered(call));
        if verdict.allowed {
            admitted.push(verdict.remaining);
        } else {
            // A store may also forget by a real clock, and real time passes here.
            assert!(verdict.remaining == 0 && (SECOND..=MINUTE).contains(&verdict.retry_after()), "{verdict:?}");
        }
    }
    assert_eq!(admitted.len() as u64, MAX);
    assert_eq!(admitted.into_iter().collect::<BTreeSet<_>>(), (0..MAX).collect());
}

/// `max` may fall and rise from call to call: each call is decided under the one it brings, and the log is kept.
pub async fn every_call_is_held_against_its_own_max<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 8, MINUTE);
    for _ in 0..8 {
        assert!(bucket.acquire().await.allowed);
        bucket.advance(SECOND);
    }
    // Logged at 0 s … 7 s; it is 8 s now.
    bucket.limit = bucket.limit.with_max(3);
    let fallen = bucket.acquire().await;
    assert!(!fallen.allowed);
    assert_eq!(fallen.retry_after(), SECOND * 57, "six have to run out before a third fits");
    bucket.limit = bucket.limit.with_max(10);
    assert_eq!(bucket.acquire().await.remaining, 1);
    bucket.advance(SECOND);
    assert_eq!(bucket.acquire().await.remaining, 0);
    bucket.advance(SECOND);
    assert_eq!(bucket.acquire().await.retry_after(), SECOND * 50);
    bucket.limit = bucket.limit.with_max(1);
    assert_eq!(bucket.acquire().await.retry_after(), SECOND * 59, "all but none have to run out");
    bucket.advance(SECOND * 59);
    assert!(bucket.acquire().await.allowed);
}

/// The largest count that a limit can hold is counted down as exactly as a small one.
pub async fn the_largest_max<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", MAX_COUNT, MINUTE);
    for used in 1..=5 {
        assert_eq!(bucket.acquire().await.remaining, MAX_COUNT - used);
        bucket.advance(SECOND);
    }
}

//! How many calls are admitted, what is left, and what leaves a key as it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::bench::{Bench, HOUR, MICROSECOND, MINUTE, SECOND, answered};
use crate::reference::Reference;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit};

/// Under a burst, that is admitted at once by the algorithms that have one, and `max` by the
/// others.
pub(crate) async fn a_burst_is_for_those_that_have_one(bench: Bench, algorithm: Algorithm) {
    for burst in [1, 3, 12] {
        let limit = Limit::per_minute(5).with_burst(burst);
        let bucket = bench.bucket_under(&burst.to_string(), algorithm, &[limit]);
        let most = Reference::new(algorithm).remaining(bench.now(), limit);
        for left in (0..most).rev() {
            assert_eq!(
                bucket.admitted(1).await.remaining,
                left,
                "of {most} with a burst of {burst}"
            );
        }
        let refused = bucket.refused(1).await;
        bucket.wait_out(&refused, 1).await;
    }
}

/// As many calls pass as the limit admits, each leaves one less, and not one more passes; a horizon
/// later all of it is free again.
pub(crate) async fn exactly_max_pass(bench: Bench, algorithm: Algorithm) {
    for apart in [Duration::ZERO, MICROSECOND] {
        for max in [1, 2, 7, 127, 128, 129, 200] {
            let bucket = bench.bucket(&format!("{max} {apart:?}"), algorithm, max);
            for left in (0..max).rev() {
                assert_eq!(
                    bucket.admitted(1).await.remaining,
                    left,
                    "of {max}, {apart:?} apart"
                );
                bucket.advance(apart);
            }
            for _ in 0..3 {
                assert_eq!(bucket.refused(1).await.remaining, 0);
                bucket.advance(apart);
            }
            bucket.advance(bucket.horizon());
            bucket.assert_whole().await;
        }
    }
}

/// Of 1,000 calls at once, exactly `max` are admitted, and each is told a different number of what
/// is left.
pub(crate) async fn a_burst_admits_exactly_max(bench: Bench, algorithm: Algorithm) {
    const MAX: u64 = 100;
    let key: Arc<[u8]> = bench.key(b"").into();
    let mut calls = JoinSet::new();
    for _ in 0..1_000 {
        let (store, key) = (Arc::clone(&bench.store), Arc::clone(&key));
        calls.spawn(async move {
            store
                .acquire(Request::new(&key, algorithm, &[Limit::new(MAX, HOUR)]))
                .await
        });
    }
    let mut admitted = Vec::new();
    while let Some(call) = calls.join_next().await {
        let verdict = answered(answered(call));
        if verdict.allowed {
            admitted.push(verdict.remaining);
        } else {
            // A store may also forget by a real clock, and real time passes here.
            let longest = Request::new(b"", algorithm, &[Limit::new(MAX, HOUR)]).horizon();
            let is_fair = verdict
                .retry_after()
                .is_some_and(|wait| wait > SECOND && wait <= longest);
            assert!(verdict.remaining == 0 && is_fair, "{verdict:?}");
        }
    }
    assert_eq!(admitted.len() as u64, MAX);
    assert_eq!(
        admitted.into_iter().collect::<BTreeSet<_>>(),
        (0..MAX).collect()
    );
}

/// The largest count that a limit can hold is counted down as exactly as a small one.
pub(crate) async fn the_largest_max_is_counted_down(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, Limit::MAX_COUNT);
    for used in 1..=5 {
        assert_eq!(bucket.admitted(1).await.remaining, Limit::MAX_COUNT - used);
    }
}

/// An unused key has its full limit, and looking at a key leaves it as it is.
pub(crate) async fn peek_changes_nothing(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 3);
    for _ in 0..10 {
        bucket.assert_whole().await;
    }
    assert!(!bucket.reset().await, "looking makes no key");
    for left in [2, 1, 0] {
        assert_eq!(bucket.admitted(1).await.remaining, left);
        for _ in 0..10 {
            assert_eq!(bucket.remaining().await, left);
        }
    }
    let mut refused = bucket.refused(1).await;
    // A layer may have learnt it from a look; what looks is answered by the store.
    refused.cached = false;
    for _ in 0..10 {
        assert_eq!(bucket.peek(1).await, refused);
    }
    bucket.advance(bucket.horizon());
    bucket.assert_whole().await;
}

/// `reset` forgets everything, and says whether there was something.
pub(crate) async fn reset_frees_everything(bench: Bench, algorithm: Algorithm) {
    let (bucket, other) = (
        bench.bucket("", algorithm, 2),
        bench.bucket("other", algorithm, 1),
    );
    other.admit(1).await;
    assert!(!bucket.reset().await, "an unused key");
    for _ in 0..3 {
        for _ in 0..2 {
            bucket.admit(1).await;
            bucket.advance(SECOND);
        }
        bucket.refuse(1).await;
        assert!(bucket.reset().await, "a used key");
        assert!(!bucket.reset().await, "a key that was reset");
        bucket.assert_whole().await;
    }
    other.refuse(1).await;
}

/// What happens to one key happens to no other.
pub(crate) async fn keys_are_independent(bench: Bench, algorithm: Algorithm) {
    let buckets: Vec<_> = (0..100)
        .map(|nth| bench.bucket(&nth.to_string(), algorithm, 3))
        .collect();
    for left in [2, 1, 0] {
        for bucket in &buckets {
            assert_eq!(bucket.admitted(1).await.remaining, left);
        }
        bench.clock.advance(SECOND);
    }
    for bucket in &buckets {
        bucket.refuse(1).await;
    }
}

/// A key is bytes: whatever they are, each sequence of them is a key of its own.
pub(crate) async fn hostile_keys_are_keys(bench: Bench, algorithm: Algorithm) {
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
            let verdict = answered(
                bench
                    .store
                    .acquire(Request::new(&key, algorithm, &limits))
                    .await,
            );
            let shown = String::from_utf8_lossy(suffix.get(..20).unwrap_or(suffix)).into_owned();
            assert_eq!(verdict.allowed, allowed, "key ending in {shown:?}");
        }
    }
}

/// Each call is measured against the `max` it brings. One that falls below what is used refuses
/// until enough is free.
pub(crate) async fn max_may_fall_below_what_is_used(bench: Bench, algorithm: Algorithm) {
    let mut bucket = bench.bucket("", algorithm, 8);
    for _ in 0..8 {
        bucket.admit(1).await;
        bucket.advance(Duration::from_micros(1));
    }
    bucket.limits = vec![Limit::per_minute(3)];
    assert_eq!(bucket.refused(1).await.remaining, 0);
    for _ in 0..9 {
        let verdict = bucket.acquire(1).await;
        if !verdict.allowed {
            bucket.wait_out(&verdict, 1).await;
        }
    }
    bucket.advance(bucket.horizon());
    bucket.assert_whole().await;
}

/// A `max` that rises admits more, and never more than it has risen by.
pub(crate) async fn max_may_rise(bench: Bench, algorithm: Algorithm) {
    let mut bucket = bench.bucket("", algorithm, 5);
    for _ in 0..5 {
        bucket.admit(1).await;
    }
    bucket.refuse(1).await;
    let mut reference = Reference::new(algorithm);
    let _ = reference.charge(bench.now(), Limit::per_minute(5), 5);
    bucket.limits = vec![Limit::per_minute(8)];
    let mut admitted = 0;
    while bucket.acquire(1).await.allowed {
        admitted += 1;
        assert!(admitted <= 3, "more than it rose by");
    }
    assert_eq!(
        admitted,
        reference.remaining(bench.now(), Limit::per_minute(8))
    );
    bucket.advance(MINUTE * 2);
    bucket.assert_whole().await;
}

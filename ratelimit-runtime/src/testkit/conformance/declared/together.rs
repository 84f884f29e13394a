//! Several keys decided together.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::rule::{Algorithm, Limit};
use crate::store::{Feature, Request, Verdict};
use crate::testkit::conformance::bench::{Bench, HOUR, MICROSECOND, MINUTE, answered};
use crate::testkit::conformance::test_key::TestKey;

async fn ask(bench: &Bench, requests: &[Request<'_>]) -> Vec<Verdict> {
    let verdicts = answered(bench.store.own().acquire_all(requests).await);
    assert_eq!(verdicts.len(), requests.len(), "one verdict for each request");
    verdicts
}

fn admitted(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| verdict.allowed)
}

/// What one key refuses is charged to none, wherever it stands.
pub(in crate::testkit::conformance) async fn all_keys_are_charged_or_none(bench: Bench, algorithm: Algorithm) {
    for first in [true, false] {
        let narrow = bench.bucket(&format!("narrow {first}"), algorithm, 1);
        let wide = bench.bucket(&format!("wide {first}"), algorithm, 5);
        let mut pair: Vec<&TestKey<'_>> = vec![&narrow, &wide];
        if !first {
            pair.reverse();
        }
        let requests: Vec<Request<'_>> = pair.iter().map(|bucket| bucket.request(1)).collect();
        if !bench.together(&requests) {
            return;
        }
        assert!(admitted(&ask(&bench, &requests).await));
        for _ in 0..10 {
            let verdicts = ask(&bench, &requests).await;
            let refused: Vec<bool> = verdicts.iter().map(|verdict| !verdict.allowed).collect();
            assert_eq!(refused, [first, !first], "each says how it stands");
        }
        assert_eq!((narrow.remaining().await, wide.remaining().await), (0, 4));
    }
}

/// Once the longest of the waits is over, all are admitted.
pub(in crate::testkit::conformance) async fn the_longest_wait_is_enough_for_all(bench: Bench, algorithm: Algorithm) {
    let minute = bench.bucket("minute", algorithm, 1);
    let hour = bench.bucket_under("hour", algorithm, &[Limit::per_hour(1)]);
    let requests = [minute.request(1), hour.request(1)];
    if !bench.together(&requests) {
        return;
    }
    assert!(admitted(&ask(&bench, &requests).await));
    let refused = ask(&bench, &requests).await;
    let longest = refused.iter().map(|verdict| verdict.retry_after_us).max().unwrap_or(0);
    assert!(refused.iter().all(|verdict| !verdict.allowed) && longest > 0);
    bench.clock.advance(Duration::from_micros(longest - 1));
    assert!(!admitted(&ask(&bench, &requests).await));
    bench.clock.advance(MICROSECOND);
    assert!(admitted(&ask(&bench, &requests).await));
}

/// Keys of different algorithms are decided together as keys of one are.
pub(in crate::testkit::conformance) async fn algorithms_may_be_mixed(bench: Bench, algorithm: Algorithm) {
    for &other in Algorithm::ALL {
        if !bench.has(other, Feature::Together) {
            continue;
        }
        let suffix = format!("{algorithm:?}");
        let mine = bench.bucket(&format!("mine {other:?}"), algorithm, 2);
        let theirs = bench.bucket(&format!("theirs {suffix}"), other, 3);
        let requests = [mine.request(1), theirs.request(1)];
        if !bench.together(&requests) {
            continue;
        }
        for _ in 0..2 {
            assert!(admitted(&ask(&bench, &requests).await));
        }
        assert!(!admitted(&ask(&bench, &requests).await));
        assert_eq!((mine.remaining().await, theirs.remaining().await), (0, 1), "with {other:?}");
    }
}

/// One key named twice is charged twice, or not at all.
pub(in crate::testkit::conformance) async fn one_key_twice_is_charged_twice_or_not_at_all(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 3);
    let requests = [bucket.request(1), bucket.request(1)];
    if !bench.together(&requests) {
        return;
    }
    assert!(admitted(&ask(&bench, &requests).await));
    assert_eq!(bucket.remaining().await, 1);
    assert!(!admitted(&ask(&bench, &requests).await), "two do not fit any more");
    assert_eq!(bucket.remaining().await, 1, "and none of them was charged");
    bucket.admit(1).await;
}

/// Tasks that name two keys in either order never pass a limit together, and never wait for each
/// other for ever.
pub(in crate::testkit::conformance) async fn parallel_groups_pass_no_limit(bench: Bench, algorithm: Algorithm) {
    let keys: [Arc<[u8]>; 2] = ["a", "b"].map(|name| bench.key(format!("{name}{algorithm:?}").as_bytes()).into());
    let (narrow, wide) = ([Limit::new(20, MINUTE)], [Limit::new(50, MINUTE)]);
    let [a, b] = &keys;
    if !bench.together(&[Request::new(a, algorithm, &narrow), Request::new(b, algorithm, &wide)]) {
        return;
    }
    let mut calls = JoinSet::new();
    for call in 0..200 {
        let (store, [a, b]) = (Arc::clone(&bench.store), keys.clone());
        calls.spawn(async move {
            let mut requests = [Request::new(&a, algorithm, &narrow), Request::new(&b, algorithm, &wide)];
            if call % 2 == 0 {
                requests.reverse();
            }
            admitted(&answered(store.own().acquire_all(&requests).await))
        });
    }
    let passed = calls.join_all().await.into_iter().filter(|passed| *passed).count();
    assert_eq!(passed, 20);
    assert_eq!(answered(bench.store.peek(Request::new(b, algorithm, &wide)).await).remaining, 30);
}

/// Of several keys, those that refuse set their blocks, and no other.
pub(in crate::testkit::conformance) async fn only_those_that_refuse_block(bench: Bench, algorithm: Algorithm) {
    let full = bench.bucket("full", algorithm, 1);
    let free = bench.bucket("free", algorithm, 5);
    full.admit(1).await;
    let requests = [free.request(1).with_block(HOUR), full.request(1).with_block(HOUR)];
    if !bench.together(&requests) {
        return;
    }
    let verdicts = ask(&bench, &requests).await;
    assert!(!admitted(&verdicts));
    assert!(full.peek(1).await.blocked);
    let untouched = free.peek(1).await;
    assert!(untouched.allowed && !untouched.blocked && untouched.remaining == 5, "{untouched:?}");
}

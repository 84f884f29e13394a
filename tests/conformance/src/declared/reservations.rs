//! Admissions that count until they are committed or released.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::bench::{Bench, HOUR, MINUTE, SECOND, answered, is_log};
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit};

const BLOCK: Duration = Duration::from_secs(600);
/// How long a call waits that only open reservations refuse.
const RESERVED: Duration = Duration::from_millis(50);
/// Less than any charge of these limits is waited for.
const SHORT: Duration = Duration::from_millis(100);

/// Of a thousand reservations at once no more pass than the limit admits.
pub(crate) async fn a_thousand_reservations_cannot_pass_a_limit_of_five(
    bench: Bench,
    algorithm: Algorithm,
) {
    let key: Arc<[u8]> = bench.key(format!("{algorithm:?}").as_bytes()).into();
    let mut calls = JoinSet::new();
    for _ in 0..1_000 {
        let (store, key) = (Arc::clone(&bench.store), Arc::clone(&key));
        calls.spawn(async move {
            let limits = [Limit::new(5, MINUTE)];
            answered(
                store
                    .acquire(Request::new(&key, algorithm, &limits).reserving())
                    .await,
            )
            .allowed
        });
    }
    let admitted = calls
        .join_all()
        .await
        .into_iter()
        .filter(|allowed| *allowed)
        .count();
    assert_eq!(admitted, 5);
}

/// A refusal that only open reservations cause blocks no key, and says a short wait: most of them
/// are released. One that charges cause as well is like any other.
pub(crate) async fn calls_that_are_still_running_block_no_key(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 5);
    let mut tickets = Vec::new();
    for _ in 0..5 {
        let reserved = bucket.reserve(1).await;
        assert!(reserved.allowed && reserved.ticket > 0, "{reserved:?}");
        tickets.push(reserved.ticket);
    }
    for refused in [
        bucket.refused(1).await,
        bucket.peek(1).await,
        bucket.acquire_or_block(BLOCK).await,
    ] {
        assert!(
            !refused.allowed && !refused.blocked && refused.remaining == 0,
            "{refused:?}"
        );
        assert_eq!(refused.retry_after(), Some(RESERVED), "{refused:?}");
    }
    // One of them counts: who needs but one unit still waits for the others.
    let mut open = tickets.into_iter();
    if let Some(ticket) = open.next() {
        assert!(bucket.commit(1, ticket).await);
    }
    let refused = bucket.acquire_or_block(BLOCK).await;
    assert!(
        !refused.blocked && refused.retry_after() == Some(RESERVED),
        "{refused:?}"
    );
    for ticket in open {
        assert!(bucket.release(1, ticket).await);
    }
    assert_eq!(bucket.remaining().await, 4);
    for _ in 0..4 {
        bucket.admit(1).await;
    }
    let blocked = bucket.acquire_or_block(BLOCK).await;
    assert!(
        blocked.blocked && blocked.retry_after() == Some(BLOCK),
        "{blocked:?}"
    );
}

/// What was committed is an ordinary charge: it is waited for, and leads to a block.
pub(crate) async fn what_was_committed_counts(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 5);
    let mut tickets = Vec::new();
    for _ in 0..5 {
        tickets.push(bucket.reserve(1).await.ticket);
    }
    for &ticket in &tickets {
        assert!(bucket.commit(1, ticket).await);
    }
    for &ticket in &tickets {
        assert!(!bucket.commit(1, ticket).await, "it is committed already");
    }
    let refused = bucket.refused(1).await;
    assert!(
        refused.retry_after().is_some_and(|wait| wait > SHORT),
        "{refused:?}"
    );
    let blocked = bucket.acquire_or_block(BLOCK).await;
    assert!(
        blocked.blocked && blocked.retry_after() == Some(BLOCK),
        "{blocked:?}"
    );
}

/// Calls that end together, when each has left the shorter of two windows, still count in the
/// longer one: the shorter has no room for all of them.
pub(crate) async fn what_has_left_one_window_counts_in_another(bench: Bench, algorithm: Algorithm) {
    let limits = [Limit::new(1, SECOND), Limit::new(5, HOUR)];
    let bucket = bench.bucket_under("", algorithm, &limits);
    let mut tickets = Vec::new();
    for _ in 0..5 {
        let reserved = bucket.reserve(1).await;
        assert!(reserved.allowed, "{reserved:?}");
        tickets.push(reserved.ticket);
        bucket.advance(2 * SECOND);
    }
    for ticket in tickets {
        bucket.commit(1, ticket).await;
    }
    bucket.advance(5 * SECOND);
    bucket.refuse(1).await;
}

/// Ordinary charges are waited for even if reservations are open as well.
pub(crate) async fn charges_behind_reservations_are_waited_for(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 5);
    for _ in 0..5 {
        bucket.admit(1).await;
    }
    let refused = bucket.refused(1).await;
    let reserved = bucket.reserve(1).await;
    assert_eq!(
        (reserved.allowed, reserved.retry_after_us),
        (false, refused.retry_after_us),
        "a refusal reserves nothing"
    );
    bucket.wait_out(&refused, 1).await;
}

/// A release gives back all that was reserved, once, and nothing that was charged.
pub(crate) async fn a_release_gives_back_all_that_was_reserved(bench: Bench, algorithm: Algorithm) {
    let mut bucket = bench.bucket("", algorithm, 10);
    bucket.admit(2).await;
    let (heavy, light) = (bucket.reserve(5).await, bucket.reserve(1).await);
    assert_eq!(bucket.remaining().await, 2);
    if is_log(algorithm) {
        // A log knows its entries; the others keep sums, and release at most what is open.
        let other = bucket.reserve(1).await;
        assert!(bucket.release(1, other.ticket).await);
        assert!(
            !bucket.release(1, other.ticket).await,
            "while others are open"
        );
    }
    assert!(bucket.commit(1, light.ticket).await);
    // Also while a `max` of 0 suspends the key.
    let limits = std::mem::replace(&mut bucket.limits, vec![Limit::per_minute(0)]);
    assert!(bucket.release(5, heavy.ticket).await);
    bucket.limits = limits;
    assert_eq!(bucket.remaining().await, 7);
    assert!(
        !bucket.release(5, heavy.ticket).await,
        "a reservation is released once"
    );
    assert!(!bucket.commit(5, heavy.ticket).await, "it is gone");
    assert_eq!(bucket.remaining().await, 7);
    bucket.admit(7).await;
    bucket.refuse(1).await;
}

/// Where nothing is reserved nothing is released, and trying makes no key.
pub(crate) async fn a_commit_of_nothing_is_false(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 3);
    assert!(!bucket.release(1, bench.now()).await);
    assert!(!bucket.reset().await, "settling makes no key");
    let ordinary = bucket.admitted(1).await;
    assert!(
        !bucket.commit(1, ordinary.ticket).await,
        "an ordinary charge is no reservation"
    );
    assert!(!bucket.release(1, ordinary.ticket).await);
    assert_eq!(bucket.remaining().await, 2);
}

/// A reservation that is neither committed nor released is forgotten with its window, or after two
/// periods of a bucket. One that is committed after that is charged anew, unless it is sent again.
pub(crate) async fn an_open_reservation_expires(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 3);
    let mut tickets = Vec::new();
    for _ in 0..3 {
        tickets.push(bucket.reserve(1).await.ticket);
    }
    let periods = if algorithm.has_burst() { 2 } else { 1 };
    bucket.advance(bucket.horizon() * periods);
    bucket.assert_whole().await;
    bucket.advance(SECOND);
    for &ticket in &tickets {
        assert!(!bucket.release(1, ticket).await);
        let again = bucket.request(1).reserving().sent_again();
        assert!(!answered(bench.store.settle(again, ticket, 1).await).was_open);
    }
    bucket.assert_whole().await;
    for (ticket, left) in tickets.into_iter().zip([2, 1, 0]) {
        assert!(!bucket.commit(1, ticket).await);
        assert_eq!(bucket.remaining().await, left);
    }
    bucket.refuse(1).await;
}

/// Calls that overlap, and are all released, use nothing of a limit that they come close to.
pub(crate) async fn calls_that_do_not_count_use_nothing(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket_under("", algorithm, &[Limit::new(100, SECOND)]);
    let mut open = VecDeque::new();
    for call in 0..600 {
        bucket.advance(Duration::from_micros(3_300));
        if open.len() == 9
            && let Some(ticket) = open.pop_front()
        {
            let was_open = bucket.release(1, ticket).await;
            // A fixed window takes along what is open when it ends.
            assert!(
                was_open || algorithm == Algorithm::FixedWindow,
                "call {call}: the reservation has lapsed"
            );
        }
        let verdict = bucket.reserve(1).await;
        assert!(verdict.allowed, "call {call}: {verdict:?}");
        open.push_back(verdict.ticket);
    }
}

/// Reservations of processes that died are forgotten also on a key that stays in use.
pub(crate) async fn lost_reservations_are_forgotten_while_the_key_is_in_use(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 4);
    for _ in 0..3 {
        assert!(bucket.reserve(1).await.allowed);
        bucket.advance(SECOND);
    }
    for _ in 0..40 {
        bucket.advance(bucket.horizon() / 10);
        let verdict = bucket.reserve(1).await;
        if verdict.allowed {
            assert!(bucket.release(1, verdict.ticket).await);
        }
    }
    assert_eq!(bucket.remaining().await, 4);
}

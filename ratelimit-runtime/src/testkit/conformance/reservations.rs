//! Admissions that count until they are settled.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Bench, Limit, MINUTE, SECOND, answered};
use crate::Algorithm;
use crate::store::{Request, Store};

const BAN: Duration = Duration::from_secs(600);
/// What a refusal may say that only reservations have caused: they may be given back at any moment.
const SHORT: Duration = Duration::from_millis(100);

/// Of a thousand reservations at once no more pass than the limit holds.
pub async fn a_thousand_reservations_cannot_pass_a_limit_of_five<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let key: Arc<[u8]> = bench.key(format!("{algorithm:?}").as_bytes()).into();
    let mut calls = JoinSet::new();
    for _ in 0..1_000 {
        let (store, key) = (Arc::clone(&bench.store), Arc::clone(&key));
        calls.spawn(async move {
            let limits = [Limit::new(5, MINUTE)];
            answered(store.acquire(Request::new(&key, algorithm, &limits).reserving()).await).allowed
        });
    }
    let admitted = calls.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(admitted, 5);
}

/// A refusal that only reservations cause says a short wait, and bans nobody; once they are given back all is free.
pub async fn a_refusal_by_reservations_alone_is_short<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 5);
    let mut tickets = Vec::new();
    for _ in 0..5 {
        let held = subject.hold(1).await;
        assert!(held.allowed && held.ticket > 0, "{held:?}");
        tickets.push(held.ticket);
    }
    for _ in 0..3 {
        let refused = subject.acquire_or_ban(BAN).await;
        assert!(!refused.allowed && !refused.blocked, "{refused:?}");
        assert!(refused.retry_after_us > 0 && refused.retry_after() <= SHORT, "{refused:?}");
    }
    for ticket in tickets {
        assert!(subject.give_back(1, ticket).await);
    }
    assert_eq!(subject.remaining().await, 5);
}

/// What was committed is an ordinary charge: it is waited for, and leads to a ban.
pub async fn what_was_committed_counts<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 5);
    let mut tickets = Vec::new();
    for _ in 0..5 {
        tickets.push(subject.hold(1).await.ticket);
    }
    for &ticket in &tickets {
        assert!(subject.commit(1, ticket).await);
    }
    for &ticket in &tickets {
        assert!(!subject.commit(1, ticket).await, "it is committed already");
    }
    let refused = subject.refused(1).await;
    assert!(refused.retry_after() > SHORT, "{refused:?}");
    let banned = subject.acquire_or_ban(BAN).await;
    assert!(banned.blocked && banned.retry_after() == BAN, "{banned:?}");
}

/// Ordinary charges are waited for even if reservations are open as well.
pub async fn charges_behind_reservations_are_waited_for<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 5);
    for _ in 0..5 {
        subject.admit(1).await;
    }
    let refused = subject.refused(1).await;
    let held = subject.hold(1).await;
    assert_eq!((held.allowed, held.retry_after_us), (false, refused.retry_after_us), "a refusal reserves nothing");
    subject.wait_out(&refused, 1).await;
}

/// What is given back is free, and what is left stays.
pub async fn a_reservation_that_is_given_back_is_free<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    let first = subject.hold(1).await;
    let second = subject.hold(1).await;
    assert_eq!(subject.remaining().await, 1);
    assert!(subject.give_back(1, first.ticket).await);
    assert_eq!(subject.remaining().await, 2);
    assert!(subject.commit(1, second.ticket).await);
    assert_eq!(subject.remaining().await, 2);
}

/// Where nothing is reserved nothing is committed, and trying makes no key.
pub async fn a_commit_of_nothing_is_false<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    assert!(!subject.commit(1, bench.now()).await);
    assert!(!subject.give_back(1, bench.now()).await);
    assert!(!subject.reset().await, "settling makes no key");
    let ordinary = subject.admitted(1).await;
    assert!(!subject.commit(1, ordinary.ticket).await, "an ordinary charge is no reservation");
    assert_eq!(subject.remaining().await, 2);
}

/// A reservation that nobody settles is gone a horizon later.
pub async fn a_reservation_that_nobody_settles_expires<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(subject.hold(1).await.ticket);
    }
    subject.advance(subject.horizon());
    subject.assert_whole().await;
    subject.advance(SECOND);
    for ticket in held {
        assert!(!subject.commit(1, ticket).await);
        assert!(!subject.give_back(1, ticket).await);
    }
    for _ in 0..3 {
        subject.admit(1).await;
    }
    subject.refuse(1).await;
}

//! What other programs and clocks leave in the key of permits.

use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{Algorithm, Limit, Store};

use super::super::MINUTE;
use super::{LEASE, acquire, in_flight, members, on, permit};
use crate::support::clock::ServerClock;
use crate::support::redis::shared;
use crate::support::unique;

/// In microseconds: further off than any lease ends.
const FAR: i64 = 9_000_000_000_000;

#[tokio::test]
async fn a_foreign_value_fails_alone_and_is_not_touched() {
    let (server, store) = (shared(), on(shared()).await);
    let (key, log) = (unique("foreign"), unique("beside"));
    server.cli(&["SET", &key, "of another program"]);
    let limits = [Limit::new(5, MINUTE)];
    let request = [Request::new(
        log.as_bytes(),
        Algorithm::SlidingWindow,
        &limits,
    )];
    // In one call with those of other keys, and alone.
    let (own, other) = (unique("own"), unique("other"));
    let permits = [permit(&own, 1), permit(&key, 1), permit(&other, 1)];
    let [first, foreign, last] = tokio::join!(
        acquire(&store, &permits[0]),
        acquire(&store, &permits[1]),
        acquire(&store, &permits[2])
    )
    .into();
    assert!(first.unwrap().is_acquired() && last.unwrap().is_acquired());
    assert_eq!(foreign.unwrap_err().kind(), StoreErrorKind::Misconfigured);
    for error in [
        acquire(&store, &permit(&key, 1)).await.unwrap_err(),
        store
            .acquire_all(Some(permit(&key, 1)), &request)
            .await
            .unwrap_err(),
        store.in_flight(permit(&key, 1)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
    assert_eq!(server.cli(&["GET", &key]), "of another program");
    assert_eq!(
        store.peek(request[0]).await.unwrap().remaining,
        5,
        "the limit beside it is not charged"
    );
    for permit in permits {
        store.release_permit(&permit);
    }
}

#[tokio::test]
async fn members_that_no_store_writes_hold_no_permit() {
    let (server, store) = (shared(), on(shared()).await);
    let now = server.now_us();
    for (member, score) in [
        ("junk", "+inf".to_owned()),
        ("junk", (now + FAR).to_string()),
        ("", "+inf".to_owned()),
        // Of a lease that is longer than any, or none.
        ("00000000000000aa.7.99999999999", (now + FAR).to_string()),
        ("00000000000000aa.7.", "+inf".to_owned()),
        ("aa.7.5000", "+inf".to_owned()),
        // Lapsed.
        ("00000000000000aa.7.5000", (now - 1).to_string()),
        ("junk", "-inf".to_owned()),
        ("\n\u{0}", (now - 5_000_000).to_string()),
    ] {
        let key = unique("members");
        server.cli(&["ZADD", &key, &score, member]);
        let permit = permit(&key, 1);
        let verdict = acquire(&store, &permit).await.unwrap();
        assert!(verdict.is_acquired(), "{member:?} {score}: {verdict:?}");
        assert_eq!(members(server, &key).len(), 1, "{member:?} {score}");
        assert!(
            (1..=5_001).contains(&server.number(&["PTTL", &key])),
            "{member:?} {score}"
        );
        store.release_permit(&permit);
    }
}

#[tokio::test]
async fn a_lease_that_ends_too_late_is_cut_to_its_own_length() {
    let (server, store) = (shared(), on(shared()).await);
    let key = unique("cut");
    let now = server.now_us();
    server.cli(&[
        "ZADD",
        &key,
        &(now + FAR).to_string(),
        "00000000000000aa.7.6000",
    ]);
    assert!(
        acquire(&store, &permit(&key, 1)).await.unwrap().is_full,
        "it is a permit"
    );
    let [(_, ends)] = members(server, &key)[..] else {
        panic!("one member")
    };
    assert!(ends - now < 7_000_000, "{}", ends - now);
}

#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "sets the clock of a server by LD_PRELOAD"
)]
async fn a_clock_that_is_set_back_holds_no_permit_for_longer_than_a_lease() {
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    // Of a process that dies.
    let key = unique("back");
    let dead = permit(&key, 1);
    {
        let store = on(&server).await;
        assert!(acquire(&store, &dead).await.unwrap().is_acquired());
        std::mem::forget(store);
    }
    clock.set_ms(-3_600_000);
    let store = on(&server).await;
    assert!(acquire(&store, &permit(&key, 1)).await.unwrap().is_full);
    let [(_, ends)] = members(&server, &key)[..] else {
        panic!("one member")
    };
    assert!(ends <= server.now_us() + 5_000_001, "cut to a lease");
}

#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "sets the clock of a server by LD_PRELOAD"
)]
async fn a_clock_that_is_set_forward_ends_a_lease_and_the_permit_is_lost() {
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    let (store, key) = (on(&server).await, unique("forward"));
    let first = permit(&key, 1);
    assert!(acquire(&store, &first).await.unwrap().is_acquired());
    clock.set_ms(10_000);
    let other = server.store();
    let second = permit(&key, 1);
    assert!(
        acquire(&other, &second).await.unwrap().is_acquired(),
        "the lease has ended"
    );
    // The first asks to renew, and is refused; it does not drive the second out.
    tokio::time::sleep(LEASE / 2).await;
    assert_eq!(in_flight(&store, &key).await, 1);
    store.release_permit(&first);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let [(member, _)] = &members(&server, &key)[..] else {
        panic!("one member")
    };
    assert!(
        member.contains(&format!(".{}.", second.id.number)),
        "{member}"
    );
    other.release_permit(&second);
}

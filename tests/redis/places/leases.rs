//! Leases: renewed while the process lives, wherever its runtime is, and not when it is gone.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::RedisStore;
use tokio::time::sleep;

use super::{LEASE, enter, gone, in_flight, members, on, place};
use crate::support::clock::ServerClock;
use crate::support::proxy::Proxy;
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;

#[tokio::test]
async fn an_open_permit_keeps_its_place_for_longer_than_a_lease() {
    let server = shared();
    let (store, other, key) = (on(server).await, on(server).await, unique("renewed"));
    let entered = place(&key, 1);
    assert!(enter(&store, entered).await.unwrap().is_entered());
    let (start, mut renewals, mut ends) = (Instant::now(), 0, members(server, &key)[0].1);
    while start.elapsed() < LEASE + LEASE / 2 {
        sleep(LEASE / 50).await;
        assert!(enter(&other, place(&key, 1)).await.unwrap().is_full);
        let now = members(server, &key)[0].1;
        renewals += usize::from(now != std::mem::replace(&mut ends, now));
    }
    assert!((3..=6).contains(&renewals), "every third of the lease: {renewals}");
    store.leave(entered);
    gone(server, &key).await;
}

/// Leases are renewed of the first call, and of one that comes when none has been in flight for a
/// while.
#[tokio::test]
async fn a_permit_after_a_pause_is_renewed_like_the_first() {
    let server = shared();
    let (store, key) = (on(server).await, unique("paused"));
    for _ in 0..2 {
        let entered = place(&key, 1);
        assert!(enter(&store, entered).await.unwrap().is_entered());
        let (start, ends) = (Instant::now(), members(server, &key)[0].1);
        while members(server, &key)[0].1 == ends {
            assert!(start.elapsed() < LEASE / 2, "it is not renewed");
            sleep(LEASE / 50).await;
        }
        store.leave(entered);
        gone(server, &key).await;
        // Longer than those who renew look for something to do by themselves.
        sleep(Duration::from_millis(500)).await;
    }
}

/// What the server has forgotten is entered anew as soon as there is a connection to it again.
#[tokio::test]
async fn after_a_restart_the_places_are_taken_anew() {
    let mut server = RedisServer::start();
    let (store, key) = (on(&server).await, unique("restart"));
    let entered = place(&key, 1);
    assert!(enter(&store, entered).await.unwrap().is_entered());
    server.restart();
    let start = Instant::now();
    while members(&server, &key).is_empty() {
        // The store connects anew when a call wants it.
        let _ = store.in_flight(place(&key, 1)).await;
        sleep(Duration::from_millis(20)).await;
        assert!(start.elapsed() < LEASE, "it was not taken anew");
    }
    assert!(start.elapsed() < Duration::from_secs(2), "at once: {:?}", start.elapsed());
    let other = on(&server).await;
    assert!(enter(&other, place(&key, 1)).await.unwrap().is_full);
    store.leave(entered);
    gone(&server, &key).await;
}

/// The call is dropped while the server is frozen: whether it enters is not known until then.
#[tokio::test]
async fn a_caller_who_gives_up_takes_no_place() {
    {
        let server = RedisServer::start();
        let store = RedisStore::new(&server.url()).unwrap();
        store.ready().await.unwrap();
        let key = unique("given_up");
        server.freeze();
        for _ in 0..20 {
            let entering = enter(&store, place(&key, 1));
            assert!(tokio::time::timeout(Duration::from_millis(5), entering).await.is_err());
        }
        server.thaw();
        let start = Instant::now();
        loop {
            let next = place(&key, 1);
            if enter(&store, next).await.is_ok_and(|entry| entry.is_entered()) {
                store.leave(next);
                break;
            }
            assert!(start.elapsed() < LEASE / 2, "a place was left taken");
            sleep(Duration::from_millis(5)).await;
        }
        gone(&server, &key).await;
    }
}

/// The connection is lost in the middle of the answer.
#[tokio::test]
async fn a_call_whose_answer_is_lost_takes_no_place() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let (store, key) = (RedisStore::new(&proxy.url()).unwrap(), unique("lost"));
    store.ready().await.unwrap();
    proxy.cut_replies(1);
    assert!(enter(&store, place(&key, 1)).await.is_err());
    let start = Instant::now();
    while in_flight_or(&store, &key).await != 0 {
        sleep(Duration::from_millis(20)).await;
        assert!(start.elapsed() < LEASE, "the permit has not left");
    }
}

async fn in_flight_or(store: &RedisStore, key: &str) -> u64 {
    store.in_flight(place(key, 1)).await.unwrap_or(u64::MAX)
}

/// The lease ends while nothing reaches the server. Where there is a place, it is taken anew.
#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "sets the clock of a server by LD_PRELOAD")]
async fn a_lapsed_permit_enters_again_while_there_is_a_place() {
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    let (store, key) = (on(&server).await, unique("again"));
    let entered = place(&key, 1);
    assert!(enter(&store, entered).await.unwrap().is_entered());
    clock.set_ms(20_000);
    assert_eq!(in_flight(&store, &key).await, 0, "it has lapsed");
    sleep(LEASE / 2).await;
    assert_eq!(in_flight(&store, &key).await, 1);
    store.leave(entered);
    gone(&server, &key).await;
}

/// Renewing fails for want of memory, and is not taken for a lost place.
#[tokio::test]
async fn a_full_server_loses_no_permit() {
    let server = RedisServer::start();
    let (store, key) = (on(&server).await, unique("full"));
    let entered = place(&key, 1);
    assert!(enter(&store, entered).await.unwrap().is_entered());
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(enter(&store, place(&unique("other"), 1)).await.is_err());
    sleep(LEASE / 2).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let before = members(&server, &key)[0].1;
    sleep(LEASE / 4).await;
    assert!(members(&server, &key)[0].1 > before, "it is renewed again");
    store.leave(entered);
    gone(&server, &key).await;
}

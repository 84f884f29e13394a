//! Leases: renewed while the process lives, wherever its runtime is, and not when it is gone.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::RedisStore;
use tokio::time::sleep;

use super::{LEASE, enter, gone, members, on, place};
use crate::support::proxy::Proxy;
use crate::support::redis::{RedisServer, shared};
use crate::support::{unique, until};

/// Leases are renewed of the first call, and of one that comes when none has been in flight for a
/// while.
#[tokio::test]
async fn a_permit_after_a_pause_is_renewed_like_the_first() {
    let server = shared();
    let (store, key) = (on(server).await, unique("paused"));
    for _ in 0..2 {
        let entered = place(&key, 1);
        assert!(enter(&store, &entered).await.unwrap().is_entered());
        let ends = members(server, &key)[0].1;
        until("it is renewed", LEASE / 2, async || members(server, &key)[0].1 > ends).await;
        store.leave(&entered);
        gone(server, &key).await;
        // Longer than those who renew look for something to do by themselves.
        sleep(Duration::from_millis(500)).await;
    }
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
            let place = place(&key, 1);
            let entering = enter(&store, &place);
            assert!(!matches!(tokio::time::timeout(Duration::from_millis(5), entering).await, Ok(Ok(_))));
        }
        server.thaw();
        let start = Instant::now();
        loop {
            let next = place(&key, 1);
            if enter(&store, &next).await.is_ok_and(|entry| entry.is_entered()) {
                store.leave(&next);
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
    assert!(enter(&store, &place(&key, 1)).await.is_err());
    until("the permit leaves", LEASE, async || matches!(store.in_flight(place(&key, 1)).await, Ok(0))).await;
}

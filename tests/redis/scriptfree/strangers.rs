//! What the callers of one key cost those of other keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ratelimit_runtime::{Algorithm, Limit, RedisMode};
use tokio::task::JoinSet;

use super::{ask, unique, without_scripts};
use crate::support::proxy::Proxy;
use crate::support::redis::patient;

/// Of so many, some share a connection with a busy key, whichever that is.
const STRANGERS: usize = 64;

/// They wait for one of its callers, and not for all of them.
#[tokio::test]
async fn a_busy_key_has_one_turn_in_each_round_of_its_connection() {
    const CALLERS: usize = 40;
    let server = without_scripts();
    let proxy = Proxy::start(server.port()).await;
    let url = format!("redis://plain:secret@{}/", proxy.address());
    let store = patient(&url).mode(RedisMode::Transactions);
    let store = Arc::new(store.deny_cache(false));
    let busy = unique("busy");
    let call = |key: String| {
        let store = Arc::clone(&store);
        async move { ask(&store, &key, Algorithm::SlidingWindow, Limit::per_day(999)).await }
    };
    let strangers = || (0..STRANGERS).map(|number| call(format!("{busy}/{number}")));
    // Opens all connections.
    assert!(
        strangers()
            .collect::<JoinSet<_>>()
            .join_all()
            .await
            .iter()
            .all(|said| said.allowed)
    );
    proxy.delay(Duration::from_millis(2));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (called, answered) = (call(busy.clone()), Arc::clone(&answered));
        callers.spawn(async move {
            assert!(called.await.allowed);
            answered.fetch_add(1, Ordering::Relaxed);
        });
    }
    tokio::task::yield_now().await;
    strangers().collect::<JoinSet<_>>().join_all().await;
    let before = answered.load(Ordering::Relaxed);
    assert!(
        before < CALLERS * 3 / 4,
        "{before} of {CALLERS} callers of the busy key went first"
    );
    callers.join_all().await;
    assert_eq!(server.number(&["ZCARD", &format!("{busy}%log")]), 40);
}

/// A key that another program changes all the time is read again after a pause, in which others
/// have the connection.
#[tokio::test]
async fn a_caller_that_is_overtaken_again_and_again_holds_up_no_other_key() {
    let server = without_scripts();
    let proxy = Proxy::start(server.port()).await;
    let url = format!("redis://plain:secret@{}/", proxy.address());
    let store = patient(&url).mode(RedisMode::Transactions);
    let store = Arc::new(store.deny_cache(false));
    let busy = unique("busy");
    let call = |key: String| {
        let store = Arc::clone(&store);
        async move { ask(&store, &key, Algorithm::SlidingWindow, Limit::per_day(999)).await }
    };
    let strangers = || (0..STRANGERS).map(|number| call(format!("{busy}/{number}")));
    strangers().collect::<JoinSet<_>>().join_all().await;
    assert!(call(busy.clone()).await.allowed);
    // Each transaction takes longer than the time between two changes.
    proxy.delay(Duration::from_millis(2));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut program = server.connect();
    let changes = std::thread::spawn({
        let (is_over, key) = (Arc::clone(&is_over), format!("{busy}%log"));
        move || {
            while !is_over.load(Ordering::Relaxed) {
                program.send(&["PEXPIRE", &key, "100000000"]).unwrap();
            }
        }
    });
    let overtaken = tokio::spawn(call(busy.clone()));
    tokio::task::yield_now().await;
    let strangers = strangers().collect::<JoinSet<_>>().join_all();
    let answered = tokio::time::timeout(Duration::from_secs(5), strangers).await;
    let waits = !overtaken.is_finished();
    is_over.store(true, Ordering::Relaxed);
    changes.join().unwrap();
    assert!(answered.is_ok() && waits, "{}", answered.is_ok());
    assert!(overtaken.await.unwrap().allowed);
}

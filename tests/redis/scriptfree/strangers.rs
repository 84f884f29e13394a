//! What the callers of one key cost those of other keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ratelimit_runtime::{Algorithm, Limit, RedisMode};
use tokio::task::JoinSet;

use super::{ask, unique, without_scripts};
use crate::support::proxy::Proxy;
use crate::support::redis::patient;

/// Some of the strangers share a connection with the busy key, whichever that is: they wait for one
/// of its callers, and not for all of them.
#[tokio::test]
async fn a_busy_key_has_one_turn_in_each_round_of_its_connection() {
    const CALLERS: usize = 40;
    const STRANGERS: usize = 64;
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
    println!(
        "{before} of {CALLERS} callers of the busy key before the last of {STRANGERS} strangers"
    );
    assert!(
        before < CALLERS * 3 / 4,
        "{before} callers of the busy key went first"
    );
    callers.join_all().await;
    assert_eq!(server.number(&["ZCARD", &format!("{busy}%log")]), 40);
}

//! What the callers of one key cost those of other keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::Verdict;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore};
use tokio::task::JoinSet;

use super::{ask, unique, without_scripts};
use crate::support::proxy::Proxy;
use crate::support::redis::patient;

/// Of so many, some share a connection with a busy key, whichever that is.
const STRANGERS: usize = 64;

fn distant(proxy: &Proxy) -> Arc<RedisStore> {
    let url = format!("redis://plain:secret@{}/", proxy.address());
    let store = patient(&url).mode(RedisMode::Transactions);
    Arc::new(store.deny_cache(false))
}

async fn call(store: Arc<RedisStore>, key: String) -> Verdict {
    ask(&store, &key, Algorithm::SlidingWindow, Limit::per_day(999)).await
}

/// A call on each key but the busy one. The first ones open all connections.
fn strangers(store: &Arc<RedisStore>, busy: &str) -> JoinSet<Verdict> {
    let calls = (0..STRANGERS).map(|number| call(Arc::clone(store), format!("{busy}/{number}")));
    calls.collect()
}

async fn all_admitted(calls: JoinSet<Verdict>) {
    let told = calls.join_all().await;
    assert!(told.iter().all(|verdict| verdict.allowed));
}

/// They wait for one of its callers, and not for all of them.
#[tokio::test]
async fn a_busy_key_has_one_turn_in_each_round_of_its_connection() {
    const CALLERS: usize = 40;
    let (server, busy) = (without_scripts(), unique("busy"));
    let proxy = Proxy::start(server.port()).await;
    let store = distant(&proxy);
    all_admitted(strangers(&store, &busy)).await;
    proxy.delay(Duration::from_millis(2));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let called = call(Arc::clone(&store), busy.clone());
        let answered = Arc::clone(&answered);
        callers.spawn(async move {
            assert!(called.await.allowed);
            answered.fetch_add(1, Ordering::Relaxed);
        });
    }
    tokio::task::yield_now().await;
    all_admitted(strangers(&store, &busy)).await;
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
    let (server, busy) = (without_scripts(), unique("busy"));
    let proxy = Proxy::start(server.port()).await;
    let store = distant(&proxy);
    all_admitted(strangers(&store, &busy)).await;
    assert!(call(Arc::clone(&store), busy.clone()).await.allowed);
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
    let overtaken = tokio::spawn(call(Arc::clone(&store), busy.clone()));
    tokio::task::yield_now().await;
    let others = all_admitted(strangers(&store, &busy));
    let answered = tokio::time::timeout(Duration::from_secs(5), others).await;
    let waits = !overtaken.is_finished();
    is_over.store(true, Ordering::Relaxed);
    changes.join().unwrap();
    assert!(answered.is_ok() && waits, "{}", answered.is_ok());
    assert!(overtaken.await.unwrap().allowed);
}

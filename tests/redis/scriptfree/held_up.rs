//! Transactions that are held up between their reads and `EXEC`.

use std::time::Duration;

use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store as _};

use crate::support::proxy::Proxy;

use super::{SERVER, plain, unique};

const WINDOW: Duration = Duration::from_secs(1);

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap()
}

fn through(proxy: &Proxy) -> RedisStore {
    let url = format!("redis://plain:secret@{}/", proxy.address());
    let store = RedisStore::new(&url).unwrap().mode(RedisMode::Transactions);
    store.deny_cache(false)
}

async fn ask(store: &RedisStore, key: &str) -> Verdict {
    let limits = [Limit::new(1, WINDOW)];
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    store.acquire(request).await.unwrap()
}

/// A unit counts from when it was charged, and not from when the log was read.
#[tokio::test]
async fn a_call_counts_from_its_exec() {
    const HELD: Duration = Duration::from_millis(980);
    let proxy = Proxy::start(SERVER.port()).await;
    let (slow, direct, key) = (through(&proxy), plain(), unique("held"));
    // Both have their connections.
    for store in [&slow, &direct] {
        assert!(ask(store, &unique("warm")).await.allowed);
    }
    let asked = SERVER.now_us();
    proxy.hold(Some(("EXEC", HELD)));
    let free_proxy = async {
        tokio::time::sleep(HELD / 2).await;
        // Only the first one is late.
        proxy.hold(None);
    };
    let (first, ()) = tokio::join!(ask(&slow, &key), free_proxy);
    assert!(first.allowed);
    let charged = asked + micros(HELD);
    assert!(
        i64::try_from(first.ticket).unwrap() >= charged,
        "a ticket is not below its time"
    );
    assert_eq!(SERVER.number(&["ZCARD", &format!("{key}%log")]), 1);
    let mut verdict = ask(&direct, &key).await;
    while !verdict.allowed {
        tokio::time::sleep(Duration::from_micros(verdict.retry_after_us)).await;
        verdict = ask(&direct, &key).await;
    }
    let apart = SERVER.now_us() - charged;
    assert!(
        apart >= micros(WINDOW),
        "two calls within {apart} microseconds"
    );
    let late = i64::try_from(verdict.ticket).unwrap() - i64::try_from(first.ticket).unwrap();
    assert!(
        late < micros(WINDOW) + 200_000,
        "a unit is free after its window: {late}"
    );
}

/// Also where each transaction takes longer than its reads.
#[tokio::test]
async fn a_call_whose_every_exec_is_late_is_admitted_in_the_end() {
    let proxy = Proxy::start(SERVER.port()).await;
    let (slow, key) = (through(&proxy), unique("each_late"));
    assert!(ask(&slow, &unique("warm")).await.allowed);
    let asked = SERVER.now_us();
    proxy.hold(Some(("EXEC", Duration::from_millis(20))));
    let verdict = ask(&slow, &key).await;
    assert!(verdict.allowed && verdict.ticket >= (asked + 20_000).unsigned_abs());
    assert_eq!(SERVER.number(&["ZCARD", &format!("{key}%log")]), 1);
    assert!(!ask(&slow, &key).await.allowed);
}

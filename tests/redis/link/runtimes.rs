//! Runtimes that are not like others.

use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::Health;
use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store as _};

use crate::support::asking::health;
use crate::support::redis::RedisServer;

const LIMITS: [Limit; 1] = [Limit::per_hour(1_000)];

fn request() -> Request<'static> {
    Request::new(b"runtimes", Algorithm::SlidingWindow, &LIMITS)
}

/// The clock of a test stands still, or leaps as soon as nothing else is to be done. The server
/// knows nothing of that.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_makes_no_outage() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    store.ready().await.unwrap();
    for _ in 0..20 {
        assert!(store.acquire(request()).await.unwrap().allowed);
        tokio::time::advance(Duration::from_secs(30)).await;
    }
    assert!(store.acquire(request()).await.unwrap().allowed);
    assert_eq!(health(&store), Health::Up);
}

/// A panic at the first call would take the service along.
#[test]
fn a_runtime_without_timers_or_io_is_a_misconfiguration() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let builder = tokio::runtime::Builder::new_current_thread;
    for runtime in
        [builder().build().unwrap(), builder().enable_time().build().unwrap(), builder().enable_io().build().unwrap()]
    {
        let error = runtime.block_on(async { store.acquire(request()).await }).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert!(error.message().contains("enable_all"), "{error}");
    }
    let whole = builder().enable_all().build().unwrap();
    assert!(whole.block_on(async { store.acquire(request()).await }).unwrap().allowed);
}

//! Calls in flight that lose their places.

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::PlaceRequest;
use ratelimit_runtime::RedisStore;

use crate::support::redis::RedisServer;
use crate::support::unique;

fn place(key: &str) -> PlaceRequest {
    PlaceRequest {
        lease: PlaceRequest::MIN_LEASE,
        ..PlaceRequest::new(key.as_bytes(), 1)
    }
}

/// A store with a call in flight whose place another process has taken.
pub(crate) async fn that_is_lost(server: &RedisServer) -> RedisStore {
    let (store, key) = (RedisStore::new(&server.url()).unwrap(), unique("lost"));
    store.ready().await.unwrap();
    assert!(store.enter(place(&key), &[]).await.unwrap().is_entered());
    let now: u64 = server
        .cli(&["TIME"])
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let ends = format!("{}000000", now + 600);
    server.cli(&["DEL", &key]);
    server.cli(&["ZADD", &key, &ends, "00000000000000aa.1.3600000"]);
    store
}

//! Calls in flight that lose their permits.

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::PermitRequest;
use ratelimit_runtime::RedisStore;

use crate::support::redis::RedisServer;
use crate::support::unique;

fn permit(key: &str) -> PermitRequest {
    PermitRequest {
        lease: PermitRequest::MIN_LEASE,
        ..PermitRequest::new(key.as_bytes(), 1)
    }
}

/// A store with a call in flight whose permit another process has taken.
pub(crate) async fn that_is_lost(server: &RedisServer) -> RedisStore {
    let (store, key) = (server.store(), unique("lost"));
    store.ready().await.unwrap();
    assert!(
        store
            .acquire_all(Some(permit(&key)), &[])
            .await
            .unwrap()
            .is_acquired()
    );
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

//! Permits of calls in flight: what is stored, when each is released, and what renews leases.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::{PermitRequest, PermitVerdict};
use ratelimit_runtime::RedisStore;
use ratelimit_runtime::store::StoreError;

use crate::support::redis::RedisServer;
use crate::support::until;

mod decisions;
mod hostile;
mod leases;
mod processes;
mod runtimes;

/// The shortest lease.
const LEASE: Duration = PermitRequest::MIN_LEASE;

fn permit(key: &str, max: u64) -> PermitRequest {
    PermitRequest {
        lease: LEASE,
        ..PermitRequest::new(key.as_bytes(), max)
    }
}

async fn acquire(store: &RedisStore, permit: &PermitRequest) -> Result<PermitVerdict, StoreError> {
    store.acquire_all(Some(permit.clone()), &[]).await
}

async fn in_flight(store: &RedisStore, key: &str) -> u64 {
    store.in_flight(permit(key, 1)).await.unwrap()
}

async fn on(server: &RedisServer) -> RedisStore {
    let store = server.store();
    store.ready().await.unwrap();
    store
}

/// The members of a key and their scores, by score.
fn members(server: &RedisServer, key: &str) -> Vec<(String, i64)> {
    let reply = server.cli(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
    let lines: Vec<&str> = reply.lines().collect();
    lines
        .chunks(2)
        .map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap()))
        .collect()
}

/// Waits until a key has no member any more; not so long that leases would have ended.
async fn gone(server: &RedisServer, key: &str) {
    until("the permit is released", LEASE / 2, async || {
        members(server, key).is_empty()
    })
    .await;
}

/// Whether this comes true before a lease has ended, on a thread that drives no runtime.
fn in_time(mut is_true: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < LEASE / 2 {
        if is_true() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

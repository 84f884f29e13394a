//! [`lowered`]: what a refusal costs a redis-server whose sorted set holds far more than is
//! admitted now.

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};

use super::server::CountedServer;

/// The instructions of one refusal, after a limit of 2,000 has been lowered to 3.
pub fn lowered(server: &mut CountedServer) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store = RedisStore::new(&server.url()).unwrap().deny_cache(false);
    store.answers_within(super::COUNTED);
    runtime.block_on(store.ready()).unwrap();
    let allows = |max| {
        let limits = [Limit::per_hour(max)];
        let request = Request::new(b"log", Algorithm::SlidingWindow, &limits);
        runtime.block_on(store.acquire(request)).unwrap().allowed
    };
    assert!((0..2_000).all(|_| allows(2_000)));
    // Beside one of them the link may ask the server how it is.
    (0..3)
        .map(|_| server.instructions(|| assert!(!allows(3))))
        .min()
        .unwrap()
}

//! A store that processes share cannot go by the clock of one of them.

use ratelimit_runtime::clock::TokioClock;
use ratelimit_runtime::store::StoreError;
use ratelimit_runtime::RedisStore;

fn main() -> Result<(), StoreError> {
    RedisStore::new("redis://127.0.0.1/")?.with_clock(TokioClock::new());
    Ok(())
}

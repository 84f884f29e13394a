//! Stacks that are charged in opposite order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Request, Verdict};
use ratelimit_runtime::{MemoryStore, RateLimiter, Store, rate_limit};

use crate::Outcome;
use crate::support::layer::forward;

/// A layer whose answers come later than the questions, and the second charge of each stack of two
/// later than the first of any.
struct Opposed {
    memory: MemoryStore,
    charges: AtomicU64,
}

impl Store for Opposed {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.memory)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        if self
            .charges
            .fetch_add(1, Ordering::SeqCst)
            .is_multiple_of(2)
        {
            return self.memory.acquire(request);
        }
        Answer::later(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let decided = self.memory.acquire(request);
            tokio::time::sleep(Duration::from_millis(5)).await;
            decided.await
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        // Seen at once, and told later.
        let seen = self.memory.peek(request);
        Answer::later(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            seen.await
        })
    }

    forward!(memory: reset);
}

#[rate_limit(key = "<key>", window = "100ms", max = 1, wait = "4s", name = "first")]
#[rate_limit(key = "<key>", window = "100ms", max = 1, wait = "4s", name = "second")]
async fn one_way(key: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<key>", window = "100ms", max = 1, wait = "4s", name = "second")]
#[rate_limit(key = "<key>", window = "100ms", max = 1, wait = "4s", name = "first")]
async fn the_other_way(key: u32) -> Outcome {
    Ok(())
}

/// Each has the last unit that the other needs. Both give back, and would meet again at each try if
/// both waited equally long.
#[tokio::test(start_paused = true)]
async fn stacks_that_charge_the_last_units_in_opposite_order_are_both_admitted() {
    for key in 0..3 {
        let store = Arc::new(Opposed {
            memory: MemoryStore::new(),
            charges: AtomicU64::new(0),
        });
        let limiter = RateLimiter::builder()
            .store(Arc::clone(&store))
            .timeout(Duration::from_secs(10))
            .build()
            .unwrap();
        let both = async { tokio::join!(one_way(key), the_other_way(key)) };
        let (one, other) = limiter.scope(both).await;
        one.unwrap();
        other.unwrap();
        let charges = store.charges.load(Ordering::SeqCst);
        assert!(charges >= 8, "they have met: {charges} charges");
    }
}

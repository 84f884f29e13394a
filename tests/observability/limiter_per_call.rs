//! A limiter that every call makes for itself limits nothing. Where the attribute cannot see that,
//! it is logged.

use std::sync::{Arc, LazyLock};

use ratelimit_runtime::{MemoryStore, RateLimitError, RateLimiter, RateLimiterBuilder, rate_limit};

use crate::log::Log;

type Outcome = Result<(), RateLimitError>;

fn made() -> RateLimiter {
    RateLimiter::memory()
}

fn built() -> RateLimiter {
    let builder: RateLimiterBuilder = RateLimiter::builder();
    builder.prefix("made").build().unwrap()
}

fn shared() -> RateLimiter {
    static LIMITER: LazyLock<RateLimiter> = LazyLock::new(RateLimiter::memory);
    LIMITER.clone()
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = made())]
pub(crate) async fn memory_made_elsewhere(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = Arc::new(made()))]
async fn in_an_arc(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 9)]
#[rate_limit(window = "60s", max = 1, limiter = &built(), count = "ok")]
async fn second_of_two(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = 1, limiter = shared())]
async fn of_a_static() -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = 1)]
async fn of_the_scope() -> Outcome {
    Ok(())
}

#[derive(Clone, Default)]
struct Service {
    limiter: Option<RateLimiter>,
    store: Arc<MemoryStore>,
}

impl Service {
    fn limiter(&self) -> RateLimiter {
        self.limiter.clone().unwrap_or_else(RateLimiter::memory)
    }

    #[rate_limit(window = "60s", max = 1, limiter = self.limiter())]
    async fn its_own_if_it_has_one(&self) -> Outcome {
        Ok(())
    }

    #[rate_limit(window = "60s", max = 1, limiter = RateLimiter::with_store(self.store.clone()))]
    async fn on_a_shared_store(&self) -> Outcome {
        Ok(())
    }

    #[rate_limit(window = "60s", max = 9, limiter = self.limiter.as_ref().unwrap(), count = "ok")]
    async fn drops_itself(self) -> Outcome {
        drop(self);
        Ok(())
    }
}

/// Calls a function nine times; says how many were admitted, and how often a limiter per call was
/// reported.
async fn nine(call: impl AsyncFn() -> Outcome) -> (usize, usize) {
    let (log, _listening) = Log::listen();
    // Attributes without a limiter of their own use this one: that of the process warns once, which
    // another test awaits.
    let others = RateLimiter::memory();
    let admitted = others.scope(async {
        let mut admitted = 0;
        for _ in 0..9 {
            admitted += usize::from(call().await.is_ok());
        }
        admitted
    });
    (admitted.await, log.count("limiter_per_call"))
}

#[tokio::test]
async fn a_limiter_made_for_each_call_is_reported_once_per_rule() {
    assert_eq!(nine(async || in_an_arc(1).await).await, (9, 1));
    assert_eq!(nine(async || in_an_arc(2).await).await, (9, 0), "not again");
    assert_eq!(nine(async || second_of_two(1).await).await, (9, 1));
    let without = Service::default();
    assert_eq!(
        nine(async || without.its_own_if_it_has_one().await).await,
        (9, 1)
    );
}

#[tokio::test]
async fn a_limiter_that_outlives_the_call_is_not_reported() {
    assert_eq!(nine(of_a_static).await, (1, 0));
    assert_eq!(
        RateLimiter::memory().scope(nine(of_the_scope)).await,
        (1, 0)
    );
    let service = Service {
        limiter: Some(RateLimiter::memory()),
        ..Service::default()
    };
    assert_eq!(
        nine(async || service.its_own_if_it_has_one().await).await,
        (1, 0)
    );
    assert_eq!(
        nine(async || service.on_a_shared_store().await).await,
        (1, 0)
    );
    assert_eq!(
        nine(async || service.clone().drops_itself().await).await.1,
        0,
        "it was there before the call"
    );
}

//! The guarded future is `Send`, `Sync` and unwind safe where the bare one is.
#![allow(
    clippy::manual_async_fn,
    clippy::unused_async,
    reason = "the shapes are the point"
)]

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;

use ratelimit_runtime::{RateLimiter, rate_limit};

use super::Outcome;

/// The auto traits of a future that holds nothing but numbers.
trait Plain: Send + Sync + UnwindSafe + RefUnwindSafe {}
impl<T: Send + Sync + UnwindSafe + RefUnwindSafe> Plain for T {}

const fn is_plain<T: Plain>(future: T) -> T {
    future
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn free(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
async fn counted(id: u32) -> Outcome {
    std::future::ready(()).await;
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, wait = "1ms")]
async fn waits(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, concurrent = 9)]
async fn in_flight(id: u32) -> Outcome {
    std::future::ready(()).await;
    Ok(())
}

#[rate_limit(window = "60s", max = 1, shadow, limiter = limiter)]
async fn shadow(limiter: &RateLimiter) {}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn returned(id: u32) -> impl Future<Output = Outcome> + Send + Sync + UnwindSafe + RefUnwindSafe {
    async move { Ok(()) }
}

#[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
fn boxed(
    id: u32,
) -> Pin<Box<dyn Future<Output = Outcome> + Send + Sync + UnwindSafe + RefUnwindSafe>> {
    Box::pin(async move { Ok(()) })
}

struct Service {
    limiter: RateLimiter,
}

impl Service {
    #[rate_limit(key = "<id>", window = "60s", max = 1, limiter = self.limiter)]
    async fn by_reference(&self, id: u32) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1, limiter = self.limiter, count = "ok")]
    async fn counted(&self, id: u32) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1, limiter = self.limiter)]
    async fn by_value(self, id: u32) -> Outcome {
        Ok(())
    }
}

trait Returns {
    fn future(&self, id: u32) -> impl Future<Output = Outcome> + Send + Sync + UnwindSafe;
}

impl Returns for Service {
    #[rate_limit(key = "<id>", window = "60s", max = 1, limiter = self.limiter)]
    async fn future(&self, id: u32) -> Outcome {
        Ok(())
    }
}

/// Futures of `async_trait` are `Send`, and not `Sync`, with the guard and without; the future in
/// the box is both.
#[async_trait::async_trait]
trait Boxed {
    async fn plain(&self, id: u32) -> Outcome;
}

#[async_trait::async_trait]
impl Boxed for Service {
    #[rate_limit(key = "<id>", window = "60s", max = 1, limiter = self.limiter)]
    async fn plain(&self, id: u32) -> Outcome {
        is_plain(Self::by_reference(self, id)).await.or(Ok(()))
    }
}

/// `Send`, but not `Sync`: a reference to it must not be held across the check.
struct Request(std::cell::Cell<u32>);

#[rate_limit(key = "<request.0.get()>", window = "60s", max = 1, count = "ok")]
async fn not_sync(request: Request) -> Outcome {
    std::future::ready(()).await;
    request.0.set(1);
    Ok(())
}

#[test]
fn an_argument_that_is_not_sync_leaves_the_future_send() {
    const fn is_send<T: Send>(_: &T) {}
    is_send(&not_sync(Request(1.into())));
}

#[tokio::test]
async fn a_guarded_future_has_the_auto_traits_of_the_bare_one() {
    const fn a_permit_is_plain<T: Plain + 'static>() {}
    a_permit_is_plain::<ratelimit_runtime::Permit>();
    let limiter = RateLimiter::memory();
    let service = Service {
        limiter: limiter.clone(),
    };
    let again = || Service {
        limiter: limiter.clone(),
    };
    limiter
        .scope(async {
            for refused in [false, true] {
                assert_eq!(is_plain(free(1)).await.is_err(), refused);
                assert_eq!(is_plain(counted(1)).await.is_err(), refused);
                assert_eq!(is_plain(waits(1)).await.is_err(), refused);
                assert_eq!(is_plain(in_flight(1)).await.is_err(), refused);
                is_plain(shadow(&limiter)).await;
                assert_eq!(is_plain(returned(1)).await.is_err(), refused);
                assert_eq!(is_plain(boxed(1)).await.is_err(), refused);
                assert_eq!(is_plain(service.by_reference(1)).await.is_err(), refused);
                assert_eq!(is_plain(service.counted(1)).await.is_err(), refused);
                assert_eq!(is_plain(again().by_value(1)).await.is_err(), refused);
                assert_eq!(is_plain(service.future(1)).await.is_err(), refused);
                assert_eq!(service.plain(2).await.is_err(), refused);
            }
        })
        .await;
}

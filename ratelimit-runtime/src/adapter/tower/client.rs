//! [`RateLimitClientLayer`]: for any service of tower, above all clients of a remote API.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::error::RateLimitError;
use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::rule::Rule;

/// A layer for any service of tower whose error can be a [`RateLimitError`], as `tower::BoxError`
/// can: above all for clients that stay below the limit of a remote API, over all processes. A
/// rule with [`wait`](Rule::with_wait) waits for its turn in place of an error.
///
/// ```
/// use std::time::Duration;
///
/// use ratelimit_runtime::{Key, Limit, RateLimitClientLayer, RateLimiter, Rule};
/// use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
///
/// static THEIR_API: Rule = Rule::new("their-api", Limit::per_second(10)).with_wait(Duration::from_secs(5));
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let mut client = ServiceBuilder::new()
///     .layer(RateLimitClientLayer::new(RateLimiter::memory(), &THEIR_API, |_: &&str| Key::of("our account")))
///     .service(service_fn(|path: &'static str| async move { Ok::<_, BoxError>(format!("GET {path}")) }));
/// assert_eq!(client.ready().await?.call("/").await?, "GET /");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a layer does nothing until it is applied"]
pub struct RateLimitClientLayer<F> {
    limiter: RateLimiter,
    rule: Arc<Rule>,
    key: F,
}

impl<F> RateLimitClientLayer<F> {
    /// Limits calls by this rule; `key` makes the key from a request.
    pub fn new(limiter: RateLimiter, rule: &Rule, key: F) -> Self {
        Self { limiter, rule: Arc::new(rule.clone()), key }
    }
}

impl<S, F: Clone> Layer<S> for RateLimitClientLayer<F> {
    type Service = RateLimitClient<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimitClient { layer: self.clone(), inner }
    }
}

/// A service whose calls are limited; made by [`RateLimitClientLayer`].
#[derive(Clone)]
pub struct RateLimitClient<S, F> {
    layer: RateLimitClientLayer<F>,
    inner: S,
}

impl<S, Q, F> Service<Q> for RateLimitClient<S, F>
where
    S: Service<Q> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: From<RateLimitError>,
    Q: Send + 'static,
    F: Fn(&Q) -> Key,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Q) -> Self::Future {
        let RateLimitClientLayer { limiter, rule, key } = &self.layer;
        let (limiter, rule, key) = (limiter.clone(), Arc::clone(rule), key(&request));
        // The one that was ready is used up.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            let _ = limiter.acquire(&rule, &key).await?;
            inner.call(request).await
        })
    }
}

impl<F> fmt::Debug for RateLimitClientLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitClientLayer").field("rule", &self.rule).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, F> fmt::Debug for RateLimitClient<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitClient").field("layer", &self.layer).field("inner", &self.inner).finish()
    }
}

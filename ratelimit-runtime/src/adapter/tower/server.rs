//! [`RateLimitLayer`] as a layer for HTTP services of tower, by which axum and tonic apply it.

use std::future::{Future, ready};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::body::LimitedBody;
use super::protocol::Protocol;
use crate::adapter::layer::header_update::keep_out_of_caches;
use crate::adapter::layer::{Http, NoKey, RateLimitLayer, RequestRules, acquire};
use crate::response::RefusalDecision;

impl<S, R: Clone, P: Clone> Layer<S> for RateLimitLayer<R, P> {
    type Service = RateLimitService<S, R, P>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimitService {
            layer: self.clone(),
            inner,
        }
    }
}

/// A service of tower in a [`RateLimitLayer`]: it checks the layer's rules before the inner service
/// is called, and adds the header fields to its responses.
#[derive(Clone, Debug)]
pub struct RateLimitService<S, R, P = Http> {
    layer: RateLimitLayer<R, P>,
    inner: S,
}

impl<S, Q, B, R, P> Service<Request<Q>> for RateLimitService<S, R, P>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    Q: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: RequestRules<Request<Q>, Response<B>> + Send + 'static,
    P: Protocol,
{
    type Response = Response<LimitedBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        if let Some(proxies) = &self.layer.proxies {
            request.extensions_mut().insert(proxies.clone());
        }
        let copy = self.layer.copy(|copy| {
            *copy.method_mut() = request.method().clone();
            *copy.uri_mut() = request.uri().clone();
            *copy.version_mut() = request.version();
            *copy.headers_mut() = request.headers().clone();
            *copy.extensions_mut() = request.extensions().clone();
        });
        // The service that was ready is used up, also where it is not called: it may have reserved
        // what others wait for.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let without_key = without_key::<B, P>;
        let checks = match self.layer.checks(&request, copy.as_ref(), without_key) {
            Ok(checks) => checks,
            Err(answer) => return Box::pin(ready(Ok(answer))),
        };
        let running = self.layer.run(copy, async move {
            match acquire(checks).await {
                Ok(()) => inner
                    .call(request)
                    .await
                    .map(|response| response.map(LimitedBody::served)),
                Err(error) => Ok(P::refusal(error).map(LimitedBody::refused)),
            }
        });
        Box::pin(async {
            let (mut answer, update) = running.await;
            if let Ok(response) = &mut answer {
                let refusal = response.extensions_mut().remove::<RefusalDecision>();
                let is_refusal = P::is_refusal(response);
                if let Some(refusal) = update.apply(is_refusal, refusal, response.headers_mut()) {
                    response.extensions_mut().insert(refusal);
                }
            }
            answer
        })
    }
}

/// The answer to a request that has no key.
fn without_key<B, P: Protocol>(no_key: NoKey<Response<B>>) -> Response<LimitedBody<B>> {
    match no_key {
        NoKey::Answer(mut response) => {
            keep_out_of_caches(response.headers_mut());
            response.map(LimitedBody::served)
        }
        NoKey::Text(response) => (*response).map(LimitedBody::refused),
        NoKey::Rejected(rejection) => P::rejection(rejection).map(LimitedBody::refused),
        NoKey::Refused(error) => P::refusal(error).map(LimitedBody::refused),
    }
}

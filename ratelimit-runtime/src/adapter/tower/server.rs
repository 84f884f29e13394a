//! [`RateLimitLayer`] as a layer for HTTP services of tower.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use crate::adapter::header_key::HeaderKeyRejection;
use crate::adapter::layer::{
    Asks as _, Before, Limited, Question, RateLimitLayer, RequestKey, Telling, Unlimited, tell,
};
use crate::response::Told;

impl<S, R: Clone> Layer<S> for RateLimitLayer<R> {
    type Service = RateLimitService<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimitService { layer: self.clone(), inner }
    }
}

/// A service whose responses tell of rate limits; made by [`RateLimitLayer`].
#[derive(Clone, Debug)]
pub struct RateLimitService<S, R> {
    layer: RateLimitLayer<R>,
    inner: S,
}

type Answering<S, Q> = Pin<
    Box<dyn Future<Output = Result<<S as Service<Request<Q>>>::Response, <S as Service<Request<Q>>>::Error>> + Send>,
>;

impl<S, R> RateLimitService<S, R> {
    fn prepare<Q>(&self, request: &mut Request<Q>) {
        if let Some(proxies) = &self.layer.proxies {
            request.extensions_mut().insert(proxies.clone());
        }
    }

    /// Answers, and tells in the response what was decided.
    fn answered<B, E>(
        &self,
        answer: impl Future<Output = Result<Response<B>, E>> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = Result<Response<B>, E>> + Send>>
    where
        R: Send + 'static,
    {
        let running = self.layer.run(answer);
        Box::pin(async {
            let (mut answer, decisions, legacy) = running.await;
            if let Ok(response) = &mut answer {
                let before = Before {
                    status: response.status().as_u16(),
                    was_told: response.extensions_mut().remove::<Told>().is_some(),
                    has_retry_after: response.headers().contains_key(RETRY_AFTER),
                };
                for Telling { name, value, replaces } in tell(&before, &decisions, legacy) {
                    let Ok(value) = HeaderValue::from_str(&value) else { continue };
                    if replaces {
                        response.headers_mut().insert(name, value);
                    } else {
                        response.headers_mut().append(name, value);
                    }
                }
            }
            answer
        })
    }
}

impl<S, Q, B> Service<Request<Q>> for RateLimitService<S, Unlimited>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answering<S, Q>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        self.prepare(&mut request);
        let answer = self.inner.call(request);
        self.answered(answer)
    }
}

impl<S, Q, B, F, K> Service<Request<Q>> for RateLimitService<S, Limited<F>>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    Q: Send + 'static,
    B: From<String> + Send + 'static,
    F: Fn(&Request<Q>) -> K + Send + 'static,
    K: RequestKey<Response<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answering<S, Q>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        self.prepare(&mut request);
        let question = match self.layer.rule.question(&request) {
            Ok(question) => question,
            Err(answer) => return Box::pin(async { Ok(answer) }),
        };
        // The one that was ready is used up.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        self.answered(async move {
            match Question::ask(question).await {
                Ok(()) => inner.call(request).await,
                Err(error) => Ok(error.to_http_response().map(B::from)),
            }
        })
    }
}

/// 400, and what is missing.
impl<B: From<String>> From<HeaderKeyRejection> for Response<B> {
    fn from(rejection: HeaderKeyRejection) -> Self {
        let mut response = Self::new(B::from(rejection.to_string()));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    }
}

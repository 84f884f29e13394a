//! [`RateLimitLayer`] as a middleware of poem.

use poem::error::ResponseError as _;
use poem::http::StatusCode;
use poem::{Endpoint, IntoResponse, Middleware, Request, Response};

use crate::adapter::layer::header_update::keep_out_of_caches;
use crate::adapter::layer::{NoKey, RateLimitLayer, RequestRules, acquire};
use crate::response::RefusalDecision;
use crate::{KeyRejection, RateLimitError};

/// An endpoint of poem in a [`RateLimitLayer`]: it checks the layer's rules before the inner
/// endpoint is called, and adds the header fields to its responses.
#[derive(Debug)]
pub struct RateLimitEndpoint<E, R> {
    layer: RateLimitLayer<R>,
    inner: E,
}

impl<E: Endpoint, R: RequestRules<Request, Response> + Clone + Send + Sync> Middleware<E>
    for RateLimitLayer<R>
{
    type Output = RateLimitEndpoint<E, R>;

    fn transform(&self, inner: E) -> Self::Output {
        RateLimitEndpoint {
            layer: self.clone(),
            inner,
        }
    }
}

impl<E: Endpoint, R: RequestRules<Request, Response> + Send + Sync> Endpoint
    for RateLimitEndpoint<E, R>
{
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
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
        let without_key = |no_key: NoKey<_>| no_key.answer(super::response);
        let checks = match self.layer.checks(&request, copy.as_ref(), without_key) {
            Ok(checks) => checks,
            Err(mut answer) => {
                keep_out_of_caches(answer.headers_mut());
                return Ok(answer);
            }
        };
        let answer = async {
            match acquire(checks).await {
                Ok(()) => self
                    .inner
                    .call(request)
                    .await
                    .map(IntoResponse::into_response)
                    .or_else(responded),
                Err(error) => Ok(error.as_response()),
            }
        };
        let (answer, update) = self.layer.run(copy, answer).await;
        let mut response = answer?;
        let refusal = response.extensions_mut().remove::<RefusalDecision>();
        let is_refusal = response.status() == StatusCode::TOO_MANY_REQUESTS;
        if let Some(refusal) = update.apply(is_refusal, refusal, response.headers_mut()) {
            response.extensions_mut().insert(refusal);
        }
        Ok(response)
    }
}

/// An error of this crate, and any refusal, becomes a response while the layer's limiter is in
/// force, because the response tells of the decisions too. Other errors are for the handlers around
/// the layer.
fn responded(mut error: poem::Error) -> poem::Result<Response> {
    let refusal = error.downcast_ref::<RateLimitError>();
    // The response of an error has the extensions of the error, not those that it was made with.
    if let Some(decision) = refusal.and_then(|refusal| refusal.decision().copied()) {
        error.set_data(RefusalDecision::alone(decision));
    }
    let is_ours = error.is::<RateLimitError>() || error.is::<KeyRejection>();
    if !is_ours && error.status() != StatusCode::TOO_MANY_REQUESTS {
        return Err(error);
    }
    Ok(error.into_response())
}

impl From<Response> for NoKey<Response> {
    fn from(response: Response) -> Self {
        Self::Answer(response)
    }
}

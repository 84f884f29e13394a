//! [`RateLimitLayer`] as a middleware of actix-web.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::EitherBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::error::InternalError;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{StatusCode, Version};
use actix_web::{Error, HttpMessage as _, HttpResponse, ResponseError as _};

use crate::adapter::layer::header_update::{Fields, HeaderUpdate, keep_out_of_caches};
use crate::adapter::layer::{NoKey, RateLimitLayer, RequestRules, acquire};
use crate::response::RefusalDecision;
use crate::{KeyRejection, RateLimitError};

/// A service of actix-web in a [`RateLimitLayer`]: it checks the layer's rules before the inner
/// service is called, and adds the header fields to its responses.
#[derive(Debug)]
pub struct RateLimitMiddleware<S, R> {
    layer: RateLimitLayer<R>,
    inner: Rc<S>,
}

impl<S, B, R> Transform<S, ServiceRequest> for RateLimitLayer<R>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    R: RequestRules<ServiceRequest, HttpResponse> + Clone + 'static,
    B: 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type InitError = ();
    type Transform = RateLimitMiddleware<S, R>;
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(RateLimitMiddleware {
            layer: self.clone(),
            inner: Rc::new(inner),
        }))
    }
}

impl<S, B, R> Service<ServiceRequest> for RateLimitMiddleware<S, R>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    R: RequestRules<ServiceRequest, HttpResponse> + 'static,
    B: 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        if let Some(proxies) = &self.layer.proxies {
            request.extensions_mut().insert(proxies.clone());
        }
        let copy = self.layer.copy(|copy| fill(copy, &request));
        let without_key = |no_key: NoKey<_>| no_key.answer(super::response);
        let checks = match self.layer.checks(&request, copy.as_ref(), without_key) {
            Ok(checks) => checks,
            Err(mut answer) => {
                keep_out_of_caches(answer.headers_mut());
                return Box::pin(ready(Ok(request
                    .into_response(answer)
                    .map_into_right_body())));
            }
        };
        let inner = Rc::clone(&self.inner);
        let running = self.layer.run(copy, async move {
            match acquire(checks).await {
                Ok(()) => inner
                    .call(request)
                    .await
                    .map(ServiceResponse::map_into_left_body)
                    .map_err(answered),
                Err(error) => Ok(request
                    .into_response(error.error_response())
                    .map_into_right_body()),
            }
        });
        Box::pin(async move {
            let (answer, update) = running.await;
            match answer {
                Ok(mut answer) => {
                    apply(&update, answer.response_mut());
                    Ok(answer)
                }
                Err((error, Some(mut response))) => {
                    apply(&update, &mut response);
                    Err(InternalError::from_response(Answered(error), response).into())
                }
                Err((error, None)) => Err(error),
            }
        })
    }
}

/// Copies what a request has besides its body and its extensions, which cannot be copied.
/// actix-web has types of its own for it.
fn fill(copy: &mut http::Request<()>, request: &ServiceRequest) {
    let method = http::Method::from_bytes(request.method().as_str().as_bytes());
    *copy.method_mut() = method.unwrap_or_default();
    *copy.uri_mut() = request.uri().to_string().parse().unwrap_or_default();
    *copy.version_mut() = match request.version() {
        Version::HTTP_09 => http::Version::HTTP_09,
        Version::HTTP_10 => http::Version::HTTP_10,
        Version::HTTP_2 => http::Version::HTTP_2,
        Version::HTTP_3 => http::Version::HTTP_3,
        _ => http::Version::HTTP_11,
    };
    for (name, value) in request.headers() {
        let name = http::HeaderName::from_bytes(name.as_ref());
        let value = http::HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            copy.headers_mut().append(name, value);
        }
    }
}

/// An error with the response of a layer. Layers further out recognize it by this type, among
/// errors of other crates.
#[derive(Debug)]
struct Answered(Error);

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An error of this crate, and any refusal, becomes a response while the layer's limiter is in
/// force, because the response tells of the decisions too. Other errors are for the handlers around
/// the layer.
fn answered(error: Error) -> (Error, Option<HttpResponse>) {
    let is_ours = error.as_error::<RateLimitError>().is_some()
        || error.as_error::<KeyRejection>().is_some()
        || error.as_error::<InternalError<Answered>>().is_some();
    let is_refusal = error.as_response_error().status_code() == StatusCode::TOO_MANY_REQUESTS;
    let response = (is_ours || is_refusal).then(|| error.error_response());
    (error, response)
}

fn apply<B>(update: &HeaderUpdate, response: &mut HttpResponse<B>) {
    let refusal = response.extensions_mut().remove::<RefusalDecision>();
    let is_refusal = response.status() == StatusCode::TOO_MANY_REQUESTS;
    if let Some(refusal) = update.apply(is_refusal, refusal, response.headers_mut()) {
        response.extensions_mut().insert(refusal);
    }
}

impl Fields for HeaderMap {
    fn all(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.get_all(name).map(HeaderValue::as_bytes)
    }

    fn set(&mut self, name: &'static str, value: impl AsRef<[u8]>) {
        let value = HeaderValue::from_bytes(value.as_ref());
        debug_assert!(value.is_ok(), "{name} is printable");
        if let Ok(value) = value {
            let _ = self.insert(HeaderName::from_static(name), value);
        }
    }

    fn remove(&mut self, name: &'static str) {
        let _ = Self::remove(self, name);
    }
}

impl From<HttpResponse> for NoKey<HttpResponse> {
    fn from(response: HttpResponse) -> Self {
        Self::Answer(response)
    }
}

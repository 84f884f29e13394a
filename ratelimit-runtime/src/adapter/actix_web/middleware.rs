//! [`RateLimitLayer`] as a middleware of actix-web.

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::EitherBody;
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use actix_web::{Error, HttpMessage as _, HttpResponse, ResponseError as _};

use crate::ClientIpRejection;
use crate::adapter::header_key::HeaderKeyRejection;
use crate::adapter::layer::{Asks, Before, Question, RateLimitLayer, Telling, tell};
use crate::response::Told;

/// A service whose responses tell of rate limits; made by [`RateLimitLayer`].
#[derive(Debug)]
pub struct RateLimitMiddleware<S, R> {
    layer: RateLimitLayer<R>,
    inner: Rc<S>,
}

impl<S, B, R> Transform<S, ServiceRequest> for RateLimitLayer<R>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    R: Asks<ServiceRequest, HttpResponse> + Clone + 'static,
    B: 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type InitError = ();
    type Transform = RateLimitMiddleware<S, R>;
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(RateLimitMiddleware { layer: self.clone(), inner: Rc::new(inner) }))
    }
}

impl<S, B, R> Service<ServiceRequest> for RateLimitMiddleware<S, R>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    R: Asks<ServiceRequest, HttpResponse> + 'static,
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
        let question = match self.layer.question(&request) {
            Ok(question) => question,
            Err(answer) => return Box::pin(ready(Ok(request.into_response(answer).map_into_right_body()))),
        };
        let inner = Rc::clone(&self.inner);
        let running = self.layer.run(async move {
            match Question::ask(question).await {
                Ok(()) => inner.call(request).await.map(ServiceResponse::map_into_left_body),
                Err(error) => Ok(request.into_response(error.error_response()).map_into_right_body()),
            }
        });
        Box::pin(async move {
            let (mut answer, decisions, legacy) = running.await;
            if let Ok(response) = &mut answer {
                let was_told = response.response_mut().extensions_mut().remove::<Told>().is_some();
                let before = Before {
                    says_no: matches!(response.status().as_u16(), 429 | 503),
                    was_told,
                    has_retry_after: response.headers().contains_key(RETRY_AFTER),
                };
                for Telling { name, value, replaces } in tell(&before, &decisions, legacy) {
                    let Ok(value) = HeaderValue::from_str(&value) else { continue };
                    let name = HeaderName::from_static(name);
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

/// 400, and what is missing.
impl From<HeaderKeyRejection> for HttpResponse {
    fn from(rejection: HeaderKeyRejection) -> Self {
        rejection.error_response()
    }
}

/// 500, or 400 where a trusted proxy names no client.
impl From<ClientIpRejection> for HttpResponse {
    fn from(rejection: ClientIpRejection) -> Self {
        rejection.error_response()
    }
}

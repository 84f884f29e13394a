//! actix-web: refusals as errors and responses, parts of keys as extractors, and
//! [`RateLimitLayer`](crate::RateLimitLayer) as a middleware.

mod middleware;

use std::future::{Ready, ready};

use actix_web::dev::{Payload, ServiceRequest};
use actix_web::http::{StatusCode, header};
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, HttpResponse, ResponseError, web};

pub use self::middleware::RateLimitMiddleware;
use super::client_ip;
use super::header_key::{HeaderKey, NamedHeader};
use crate::response::RefusalDecision;
use crate::{ClientIp, FromRateLimitError, KeyRejection, RateLimitError, TrustedProxies};

macro_rules! responses {
    ($($error:ty)*) => {$(
        /// Responds as the [`Responses`](crate::Responses) of the limiter in force say.
        impl ResponseError for $error {
            fn status_code(&self) -> StatusCode {
                theirs(self.http_status())
            }

            fn error_response(&self) -> HttpResponse {
                response(self.to_http_response())
            }
        }

        /// The response of this error.
        impl From<$error> for HttpResponse {
            fn from(error: $error) -> Self {
                error.error_response()
            }
        }
    )*};
}

responses!(RateLimitError KeyRejection);

impl FromRateLimitError for HttpResponse {
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        error.error_response()
    }
}

/// actix-web has types of its own for status, fields and body.
fn response(ours: http::Response<String>) -> HttpResponse {
    let (mut parts, body) = ours.into_parts();
    let mut builder = HttpResponse::build(theirs(parts.status));
    for (name, value) in &parts.headers {
        builder.insert_header((name.as_str(), value.as_bytes()));
    }
    let mut response = builder.body(body);
    if let Some(decision) = parts.extensions.remove::<RefusalDecision>() {
        response.extensions_mut().insert(decision);
    }
    response
}

fn theirs(status: http::StatusCode) -> StatusCode {
    let status = StatusCode::from_u16(status.as_u16());
    debug_assert!(status.is_ok(), "both types hold the same statuses");
    status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl FromRequest for ClientIp {
    type Error = KeyRejection;
    type Future = Ready<Result<Self, KeyRejection>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(client_ip(request))
    }
}

/// Makes a part of the key of a [`RateLimitLayer`](crate::RateLimitLayer).
impl TryFrom<&ServiceRequest> for ClientIp {
    type Error = KeyRejection;

    fn try_from(request: &ServiceRequest) -> Result<Self, KeyRejection> {
        client_ip(request.request())
    }
}

fn client_ip(request: &HttpRequest) -> Result<ClientIp, KeyRejection> {
    let extensions = request.extensions();
    let of_app = || {
        request
            .app_data()
            .or_else(|| request.app_data().map(web::Data::<TrustedProxies>::get_ref))
    };
    let lines = |name: &str| {
        request
            .headers()
            .get_all(name)
            .map(header::HeaderValue::as_bytes)
            .collect()
    };
    let peer = request.peer_addr().map(|peer| peer.ip());
    client_ip::client_ip(
        peer.ok_or(KeyRejection::UnknownPeer("")),
        extensions.get().or_else(of_app),
        lines,
    )
}

impl<N: NamedHeader + 'static> FromRequest for HeaderKey<N> {
    type Error = KeyRejection;
    type Future = Ready<Result<Self, KeyRejection>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(of_headers(request.headers()))
    }
}

/// Makes a part of the key of a [`RateLimitLayer`](crate::RateLimitLayer).
impl<N: NamedHeader> TryFrom<&ServiceRequest> for HeaderKey<N> {
    type Error = KeyRejection;

    fn try_from(request: &ServiceRequest) -> Result<Self, KeyRejection> {
        of_headers(request.headers())
    }
}

fn of_headers<N: NamedHeader>(headers: &header::HeaderMap) -> Result<HeaderKey<N>, KeyRejection> {
    HeaderKey::single(&mut headers.get_all(N::NAME).map(header::HeaderValue::as_bytes))
}

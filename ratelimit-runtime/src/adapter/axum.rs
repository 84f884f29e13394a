//! Refusals as axum responses and as return values of handlers; extractors for keys.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use super::client_ip::{client_ip, lines, peer};
use super::header_key::{HeaderKey, NamedHeader};
use crate::{ClientIp, FromRateLimitError, KeyRejection, RateLimitError};

macro_rules! responses {
    ($($error:ty)*) => {$(
        /// Responds as the [`Responses`](crate::Responses) of the limiter in force say.
        impl IntoResponse for $error {
            fn into_response(self) -> Response {
                self.to_http_response().map(Into::into)
            }
        }

        /// The response of this error: for handlers that return `Result<_, Response>`.
        impl From<$error> for Response {
            fn from(error: $error) -> Self {
                error.into_response()
            }
        }
    )*};
}

responses!(RateLimitError KeyRejection);

impl FromRateLimitError for Response {
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        error.into_response()
    }
}

/// `429`, `413`, `503` or `500` alone: a `Response` has `Retry-After` and `Cache-Control: no-store`
/// as well.
impl From<RateLimitError> for StatusCode {
    fn from(error: RateLimitError) -> Self {
        error.log_if_misconfigured();
        error.http_status()
    }
}

/// The status and the message for clients: a `Response` has `Retry-After` and
/// `Cache-Control: no-store` as well.
impl From<RateLimitError> for (StatusCode, String) {
    fn from(error: RateLimitError) -> Self {
        error.log_if_misconfigured();
        (error.http_status(), error.public_message())
    }
}

impl<S: Sync> FromRequestParts<S> for ClientIp {
    type Rejection = KeyRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, KeyRejection> {
        let Parts {
            extensions,
            headers,
            ..
        } = parts;
        let peer = peer(extensions).ok_or(UNKNOWN_PEER);
        client_ip(peer, extensions.get(), lines(headers))
    }
}

pub(super) const UNKNOWN_PEER: KeyRejection = KeyRejection::UnknownPeer(
    "over TCP, serve an axum router with `into_make_service_with_connect_info::<SocketAddr>()`. ",
);

impl<N: NamedHeader, S: Sync> FromRequestParts<S> for HeaderKey<N> {
    type Rejection = KeyRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, KeyRejection> {
        Self::of(&parts.headers)
    }
}

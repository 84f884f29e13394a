//! poem: refusals as errors and responses, parts of keys as extractors, and
//! [`RateLimitLayer`](crate::RateLimitLayer) as a middleware.

mod middleware;

use std::net::SocketAddr;

use poem::error::ResponseError;
use poem::http::StatusCode;
use poem::{FromRequest, Request, RequestBody, Response};

pub use self::middleware::RateLimitEndpoint;
use super::client_ip::{client_ip, lines};
use super::header_key::{HeaderKey, NamedHeader};
use crate::{ClientIp, FromRateLimitError, KeyRejection, RateLimitError};

macro_rules! responses {
    ($($error:ty)*) => {$(
        /// Responds as the [`Responses`](crate::Responses) of the limiter in force say.
        impl ResponseError for $error {
            fn status(&self) -> StatusCode {
                self.http_status()
            }

            fn as_response(&self) -> Response {
                response(self.to_http_response())
            }
        }

        /// The response of this error.
        impl From<$error> for Response {
            fn from(error: $error) -> Self {
                error.as_response()
            }
        }
    )*};
}

responses!(RateLimitError KeyRejection);

impl FromRateLimitError for Response {
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        error.as_response()
    }
}

/// poem has a type of its own for responses.
fn response(ours: http::Response<String>) -> Response {
    let (parts, body) = ours.into_parts();
    let mut response = Response::builder().status(parts.status).body(body);
    *response.headers_mut() = parts.headers;
    *response.extensions_mut() = parts.extensions;
    response
}

impl<'a> FromRequest<'a> for ClientIp {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        Ok(Self::try_from(request)?)
    }
}

/// Makes a part of the key of a [`RateLimitLayer`](crate::RateLimitLayer).
impl TryFrom<&Request> for ClientIp {
    type Error = KeyRejection;

    fn try_from(request: &Request) -> Result<Self, KeyRejection> {
        let peer = request.remote_addr().as_socket_addr().map(SocketAddr::ip);
        let peer = peer.ok_or(KeyRejection::UnknownPeer(""));
        client_ip(peer, request.extensions().get(), lines(request.headers()))
    }
}

impl<'a, N: NamedHeader + 'static> FromRequest<'a> for HeaderKey<N> {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        Ok(Self::of(request.headers())?)
    }
}

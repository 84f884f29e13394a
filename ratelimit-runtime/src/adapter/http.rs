//! Refusals as responses of the crate `http`: for frameworks without a feature here.

use std::net::IpAddr;

use http::{HeaderMap, Response, StatusCode};

use super::client_ip::{client_ip, lines};
use crate::limiter::find;
use crate::{ClientIp, KeyRejection, RateLimitError};

impl RateLimitError {
    /// The response of this error, as the [`Responses`](crate::Responses) of the limiter in force
    /// have it: 429 with `Retry-After`, 413, 503 or 500. A mistake in the setup is logged, not told
    /// to the client.
    ///
    /// With the feature of a framework, a refused handler answers so by itself.
    #[must_use]
    pub fn to_http_response(&self) -> Response<String> {
        find::responses().response(self)
    }

    /// The status of the response of `to_http_response`.
    #[cfg(any(feature = "actix-web", feature = "axum", feature = "poem"))]
    pub(super) fn http_status(&self) -> StatusCode {
        find::responses().status(self)
    }
}

impl KeyRejection {
    /// The response to a request without a key, as the [`Responses`](crate::Responses) of the
    /// limiter in force have it.
    #[must_use]
    pub fn to_http_response(&self) -> Response<String> {
        match self.misconfigured() {
            Some(error) => error.to_http_response(),
            None => find::responses().response_without_key(self.http_status(), &self.to_string()),
        }
    }

    /// The status of the response of `to_http_response`.
    pub(super) fn http_status(self) -> StatusCode {
        find::responses().status_without_key(self)
    }
}

impl ClientIp {
    /// The client of a request on a connection from `peer`, behind the proxies of a
    /// [`RateLimitLayer`](crate::RateLimitLayer) around it, or else of the limiter in force: for
    /// frameworks without a feature here.
    ///
    /// # Errors
    ///
    /// [`KeyRejection::UnnamedClient`], and only where those proxies are
    /// [strict](crate::TrustedProxies::strict).
    pub fn of(peer: IpAddr, headers: &HeaderMap) -> Result<Self, KeyRejection> {
        client_ip(Ok(peer), None, lines(headers))
    }
}

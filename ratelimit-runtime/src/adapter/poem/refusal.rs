//! Refusals as errors and responses of poem.

use poem::Response;
use poem::error::ResponseError;
use poem::http::StatusCode;

use crate::adapter::header_key::HeaderKeyRejection;
use crate::{ClientIpRejection, FromRateLimitError, RateLimitError};

/// As the [`Responses`](crate::Responses) of the limiter in force have it.
impl ResponseError for RateLimitError {
    fn status(&self) -> StatusCode {
        self.http_status()
    }

    fn as_response(&self) -> Response {
        response(self.to_http_response())
    }
}

/// As the [`Responses`](crate::Responses) of the limiter in force have it.
impl ResponseError for HeaderKeyRejection {
    fn status(&self) -> StatusCode {
        self.http_status()
    }

    fn as_response(&self) -> Response {
        response(self.to_http_response())
    }
}

/// The response that it is.
impl From<HeaderKeyRejection> for Response {
    fn from(rejection: HeaderKeyRejection) -> Self {
        rejection.as_response()
    }
}

/// 500, or 400 where a trusted proxy names no client; as the [`Responses`](crate::Responses) of the
/// limiter in force have it.
impl ResponseError for ClientIpRejection {
    fn status(&self) -> StatusCode {
        self.http_status()
    }

    fn as_response(&self) -> Response {
        response(self.to_http_response())
    }
}

/// The response that it is.
impl From<ClientIpRejection> for Response {
    fn from(rejection: ClientIpRejection) -> Self {
        rejection.as_response()
    }
}

fn response(ours: http::Response<String>) -> Response {
    let (parts, body) = ours.into_parts();
    let mut response = Response::builder().status(parts.status).body(body);
    *response.headers_mut() = parts.headers;
    *response.extensions_mut() = parts.extensions;
    response
}

impl FromRateLimitError for Response {
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        error.as_response()
    }
}

/// The response that the error is.
impl From<RateLimitError> for Response {
    fn from(error: RateLimitError) -> Self {
        error.as_response()
    }
}

//! Refusals as axum responses, and as what handlers return in their place.

use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};

use super::http_refusal;
use crate::{FromRateLimitError, RateLimitError};

/// `429`, `503` or `500` with `{"code":…,"message":…,"data":null}`, and `Retry-After` in whole seconds, rounded up,
/// where waiting helps. What is misconfigured is logged, not told to the client.
impl IntoResponse for RateLimitError {
    fn into_response(self) -> Response {
        let mut response = (status(&self), http_refusal::body(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_seconds() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl FromRateLimitError for Response {
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        error.into_response()
    }
}

/// The response that the error is: for handlers that return `Result<_, Response>`.
impl From<RateLimitError> for Response {
    fn from(error: RateLimitError) -> Self {
        error.into_response()
    }
}

/// `429`, `503` or `500`, and no more than that: a `Response` says also when to come back.
impl From<RateLimitError> for StatusCode {
    fn from(error: RateLimitError) -> Self {
        let (status, _): (Self, String) = error.into();
        status
    }
}

/// The status and what a client may read: a `Response` says also when to come back.
impl From<RateLimitError> for (StatusCode, String) {
    fn from(error: RateLimitError) -> Self {
        (status(&error), http_refusal::message(&error))
    }
}

fn status(error: &RateLimitError) -> StatusCode {
    StatusCode::from_u16(http_refusal::status(error)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

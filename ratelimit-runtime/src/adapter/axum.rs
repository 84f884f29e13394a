//! Refusals as axum responses.

use axum_core::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{StatusCode, header};

use crate::{FromRateLimitError, RateLimitError};

/// `429`, `503` or `500` with `{"code":…,"message":…,"data":null}`, and `Retry-After` in whole seconds, rounded up,
/// where waiting helps. What is misconfigured is logged, not told to the client.
impl IntoResponse for RateLimitError {
    fn into_response(self) -> Response {
        let (status, message) = match &self {
            Self::Exceeded(_) | Self::CostExceedsLimit { .. } => (StatusCode::TOO_MANY_REQUESTS, self.to_string()),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, self.to_string()),
            Self::Misconfigured(error) => {
                tracing::error!(%error, "the rate limiter is misconfigured");
                (StatusCode::INTERNAL_SERVER_ERROR, "internal error".to_owned())
            }
        };
        // By hand, because the field order is part of what clients have come to expect.
        let message = serde_json::Value::from(message);
        let body = format!(r#"{{"code":{},"message":{message},"data":null}}"#, status.as_u16());
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(wait) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)));
        }
        response
    }
}

impl FromRateLimitError for Response {
    fn from_rate_limit_error(error: RateLimitError) -> Self {
        error.into_response()
    }
}

//! What a refusal says to a client, the same over every framework.

#[cfg(any(feature = "actix-web", feature = "axum"))]
use serde_json::Value;

use crate::RateLimitError;

/// What a client may read. What is misconfigured is logged, not told.
pub(super) fn message(error: &RateLimitError) -> String {
    if let RateLimitError::Misconfigured(error) = error {
        tracing::error!(%error, "the rate limiter is misconfigured");
        return "internal error".to_owned();
    }
    error.to_string()
}

/// The status code of an HTTP response.
#[cfg(any(feature = "actix-web", feature = "axum"))]
pub(super) fn status(error: &RateLimitError) -> u16 {
    match error {
        RateLimitError::Exceeded(_) | RateLimitError::CostExceedsLimit { .. } => 429,
        RateLimitError::Unavailable(_) => 503,
        RateLimitError::Misconfigured(_) => 500,
    }
}

/// The body of an HTTP response, of the type `application/json`.
#[cfg(any(feature = "actix-web", feature = "axum"))]
pub(super) fn body(error: &RateLimitError) -> String {
    // By hand, because the field order is part of what clients have come to expect.
    let message = Value::from(message(error));
    format!(r#"{{"code":{},"message":{message},"data":null}}"#, status(error))
}

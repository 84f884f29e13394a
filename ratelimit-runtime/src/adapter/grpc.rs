//! Refusals in the numbers of gRPC.

use http::StatusCode;

use crate::{KeyRejection, RateLimitError};

const INVALID_ARGUMENT: u8 = 3;
const RESOURCE_EXHAUSTED: u8 = 8;
const INTERNAL: u8 = 13;
const UNAVAILABLE: u8 = 14;
const UNAUTHENTICATED: u8 = 16;

/// The gRPC code of an error. A call that is too heavy is refused however often it is made, and
/// clients retry after `RESOURCE_EXHAUSTED`.
pub(super) fn code(error: &RateLimitError) -> u8 {
    match error {
        RateLimitError::Exceeded(_) => RESOURCE_EXHAUSTED,
        RateLimitError::CostExceedsLimit { .. } => INVALID_ARGUMENT,
        RateLimitError::Unavailable(_) => UNAVAILABLE,
        RateLimitError::Misconfigured(_) => INTERNAL,
    }
}

/// The gRPC code for a request without its key.
pub(super) fn code_without_key(rejection: KeyRejection) -> u8 {
    match rejection.http_status() {
        StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
        StatusCode::INTERNAL_SERVER_ERROR => INTERNAL,
        _ => INVALID_ARGUMENT,
    }
}

//! Refusals in the numbers of gRPC.

use crate::RateLimitError;

const RESOURCE_EXHAUSTED: u8 = 8;
const INTERNAL: u8 = 13;
const UNAVAILABLE: u8 = 14;
/// Of a request that has no key.
pub(super) const INVALID_ARGUMENT: u8 = 3;

/// The code of a status that says so.
pub(super) fn code(error: &RateLimitError) -> u8 {
    match error {
        RateLimitError::Exceeded(_) | RateLimitError::CostExceedsLimit { .. } => RESOURCE_EXHAUSTED,
        RateLimitError::Unavailable(_) => UNAVAILABLE,
        RateLimitError::Misconfigured(_) => INTERNAL,
    }
}

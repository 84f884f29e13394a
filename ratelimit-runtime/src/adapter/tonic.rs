//! Refusals as gRPC statuses.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::RateLimitError;

/// `RESOURCE_EXHAUSTED`, `UNAVAILABLE` or `INTERNAL`, and the metadata `retry-after` in whole seconds, rounded up, where
/// waiting helps. What is misconfigured is logged, not told to the client.
impl From<RateLimitError> for Status {
    fn from(error: RateLimitError) -> Self {
        error.log_if_misconfigured();
        let code = match &error {
            RateLimitError::Exceeded(_) | RateLimitError::CostExceedsLimit { .. } => Code::ResourceExhausted,
            RateLimitError::Unavailable(_) => Code::Unavailable,
            RateLimitError::Misconfigured(_) => Code::Internal,
        };
        let mut status = Self::new(code, error.public_message());
        if let Some(seconds) = error.retry_after_seconds() {
            status.metadata_mut().insert("retry-after", MetadataValue::from(seconds));
        }
        status
    }
}

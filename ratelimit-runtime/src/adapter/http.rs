//! Refusals as responses of the crate `http`: for frameworks without a feature here.

use http::Response;

use crate::RateLimitError;
use crate::limiter::find;

impl RateLimitError {
    /// The response that this error is, as the [`Responses`](crate::Responses) of the limiter in force have it: 429 with
    /// `Retry-After`, 503 or 500. What is misconfigured is logged, not told to the client.
    ///
    /// The features for frameworks do this where a handler is refused.
    #[must_use]
    pub fn to_http_response(&self) -> Response<String> {
        find::responses().response(self)
    }
}

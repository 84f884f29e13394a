//! [`Protocol`]: how a layer on tower answers in place of its service.

use http::{Response, StatusCode};

use crate::adapter::layer::{Http, NoKey};
use crate::{KeyRejection, RateLimitError};

/// The protocol of the answers that a [`RateLimitLayer`](crate::RateLimitLayer) gives. It is a bound
/// in signatures of frameworks, and cannot be named outside of this crate.
#[allow(
    unnameable_types,
    unreachable_pub,
    reason = "sealed: a bound that frameworks see"
)]
pub trait Protocol: 'static {
    /// The answer to a request that was refused.
    fn refusal(error: RateLimitError) -> Response<String>;

    /// The answer to a request that has no key.
    fn rejection(rejection: KeyRejection) -> Response<String>;

    /// `true` if this is a response to a call that a limit refused.
    fn is_refusal<B>(response: &Response<B>) -> bool;
}

impl Protocol for Http {
    fn refusal(error: RateLimitError) -> Response<String> {
        error.to_http_response()
    }

    fn rejection(rejection: KeyRejection) -> Response<String> {
        rejection.to_http_response()
    }

    fn is_refusal<B>(response: &Response<B>) -> bool {
        response.status() == StatusCode::TOO_MANY_REQUESTS
    }
}

impl<B> From<Response<B>> for NoKey<Response<B>> {
    fn from(response: Response<B>) -> Self {
        Self::Answer(response)
    }
}

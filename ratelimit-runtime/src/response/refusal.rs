//! [`Refusal`]: the refusal of a request, from which its response is made.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;
use http::request::Parts;

use crate::error::RateLimitError;

/// The refusal of a request, which is answered in place of its handler;
/// [`Responses::body`](crate::Responses::body) makes its body. Its `Display` is the message for
/// clients.
#[derive(Clone)]
pub struct Refusal<'a> {
    status: StatusCode,
    message: Cow<'a, str>,
    error: Option<&'a RateLimitError>,
    request: Option<&'a Parts>,
}

impl<'a> Refusal<'a> {
    pub(super) fn of_error(status: StatusCode, error: &'a RateLimitError) -> Self {
        Self {
            status,
            message: error.public_message().into(),
            error: Some(error),
            request: None,
        }
    }

    pub(super) fn without_key(status: StatusCode, message: &'a str) -> Self {
        Self {
            status,
            message: message.into(),
            error: None,
            request: None,
        }
    }

    pub(super) fn answering(self, request: Option<&'a Parts>) -> Self {
        Self { request, ..self }
    }

    /// The status of the response, as a number, because frameworks have different types for it.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    pub(super) fn http_status(&self) -> StatusCode {
        self.status
    }

    /// The message for the client: it does not show mistakes in the setup.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error of the limiter; `None` if the limiter was not asked, because the request has no
    /// key. The `Display` of `Misconfigured` is for operators: show clients the
    /// [`message`](Self::message).
    #[must_use]
    pub fn error(&self) -> Option<&'a RateLimitError> {
        self.error
    }

    /// The request without its body, as the innermost [`RateLimitLayer`](crate::RateLimitLayer) got
    /// it, with the additions of layers around that one. `None` outside of a layer.
    ///
    /// Under actix-web its extensions are empty, because they cannot be copied. To make a value
    /// readable here, let a middleware around the layer put it into a header of the request.
    #[must_use]
    pub fn request(&self) -> Option<&'a Parts> {
        self.request
    }
}

impl fmt::Debug for Refusal<'_> {
    /// Without the request, which may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("message", &self.message)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.message)
    }
}

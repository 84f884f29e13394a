//! [`Refusal`]: a request that is answered in place of its handler.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;
use http::request::Parts;

use crate::error::RateLimitError;

/// A request that is answered in place of its handler, from which
/// [`Responses::body`](crate::Responses::body) makes a body. Its `Display` is the message that a
/// client may read.
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

    /// The status of the response, as a number: frameworks have types of their own for it.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    pub(super) fn http_status(&self) -> StatusCode {
        self.status
    }

    /// The message that a client may read: it names no mistake in the setup.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error of the limiter; `None` where it was not asked, because the request has no key. The
    /// `Display` of `Misconfigured` is for operators: show clients the [`message`](Self::message).
    #[must_use]
    pub fn error(&self) -> Option<&'a RateLimitError> {
        self.error
    }

    /// The request without its body, as the innermost [`RateLimitLayer`](crate::RateLimitLayer)
    /// got it: with what layers around that one have added. `None` outside of a layer.
    ///
    /// Under actix-web its extensions are empty, because they cannot be copied. A middleware around
    /// the layer that puts a value into a header of the request makes it readable here.
    #[must_use]
    pub fn request(&self) -> Option<&'a Parts> {
        self.request
    }
}

impl fmt::Debug for Refusal<'_> {
    /// Without the request, which may have credentials.
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

//! What a layer on tower answers in place of the service: over HTTP, or to gRPC.

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};

use super::body::LimitedBody;
use crate::adapter::grpc;
use crate::adapter::header_key::HeaderKeyRejection;
use crate::{ClientIpRejection, RateLimitError};

/// What the client of a request speaks.
pub(super) enum Protocol {
    Http,
    /// gRPC, whose answers have the content type of their requests.
    Grpc(HeaderValue),
}

impl Protocol {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        // Also `application/grpc+proto`, and `application/grpc-web`.
        let is_grpc = |kind: &&HeaderValue| {
            let rest = kind.as_bytes().strip_prefix(b"application/grpc");
            rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b'-' | b';')))
        };
        headers.get(CONTENT_TYPE).filter(is_grpc).map_or(Self::Http, |kind| Self::Grpc(kind.clone()))
    }

    /// The answer to a request that was refused.
    pub(super) fn refusal<B>(self, error: &RateLimitError) -> Response<LimitedBody<B>> {
        match self {
            Self::Http => error.to_http_response().map(LimitedBody::refused),
            Self::Grpc(kind) => {
                error.log_if_misconfigured();
                let mut response = status(kind, grpc::code(error), &error.public_message());
                response.headers_mut().extend(error.retry_after_seconds().map(|seconds| (RETRY_AFTER, seconds.into())));
                response
            }
        }
    }

    /// The answer to a request that has no key.
    pub(super) fn no_key<B>(self, no_key: NoKey<B>) -> Response<LimitedBody<B>> {
        match (no_key.0, self) {
            (Reason::Answer(response), _) => response.map(LimitedBody::served),
            (Reason::Refused(error), protocol) => protocol.refusal(&error),
            (Reason::Missing(words), Self::Http) => {
                let mut response = Response::new(LimitedBody::refused(words));
                *response.status_mut() = StatusCode::BAD_REQUEST;
                response
            }
            (Reason::Missing(words), Self::Grpc(kind)) => status(kind, grpc::INVALID_ARGUMENT, &words),
        }
    }
}

/// A response that is a gRPC status and nothing else: "trailers only".
fn status<B>(kind: HeaderValue, code: u8, message: &str) -> Response<LimitedBody<B>> {
    let mut response = Response::new(LimitedBody::refused(String::new()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert("grpc-status", u16::from(code).into());
    // Ours are plain ASCII, so nothing of them has to be escaped.
    headers
        .extend(HeaderValue::from_str(message).map(|message| (http::HeaderName::from_static("grpc-message"), message)));
    response
}

/// The answer of a layer on tower to a request that has no key: a response, a [`HeaderKeyRejection`], a
/// [`ClientIpRejection`], a [`RateLimitError`] or, with the feature `tonic`, a `Status`.
#[derive(Debug)]
pub struct NoKey<B>(Reason<B>);

#[derive(Debug)]
enum Reason<B> {
    Answer(Response<B>),
    /// What is missing.
    Missing(String),
    Refused(RateLimitError),
}

impl<B> From<Response<B>> for NoKey<B> {
    fn from(response: Response<B>) -> Self {
        Self(Reason::Answer(response))
    }
}

/// 400, or `INVALID_ARGUMENT`, and what is missing.
impl<B> From<HeaderKeyRejection> for NoKey<B> {
    fn from(rejection: HeaderKeyRejection) -> Self {
        Self(Reason::Missing(rejection.to_string()))
    }
}

/// 500, or 400 where a trusted proxy names no client.
impl<B> From<ClientIpRejection> for NoKey<B> {
    fn from(rejection: ClientIpRejection) -> Self {
        match rejection.misconfigured() {
            Some(error) => error.into(),
            None => Self(Reason::Missing(rejection.to_string())),
        }
    }
}

/// As the [`Responses`](crate::Responses) of the limiter in force have it, or a status of gRPC.
impl<B> From<RateLimitError> for NoKey<B> {
    fn from(error: RateLimitError) -> Self {
        Self(Reason::Refused(error))
    }
}

#[cfg(feature = "tonic")]
impl<B: Default> From<tonic::Status> for NoKey<B> {
    fn from(status: tonic::Status) -> Self {
        status.into_http().into()
    }
}

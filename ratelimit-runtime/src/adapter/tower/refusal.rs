//! Answers of a layer on tower in place of the service's: over HTTP, or to gRPC.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};

use super::body::LimitedBody;
use crate::adapter::grpc;
use crate::adapter::layer::header_update::keep_out_of_caches;
use crate::{KeyRejection, RateLimitError};

/// The protocol of a client's request.
#[derive(Clone, Copy)]
pub(super) enum Protocol {
    Http,
    /// gRPC, whose answers are a `200` with a status in its fields.
    Grpc,
    /// gRPC-Web, which reads the status of HTTP, and those fields in an answer of this type.
    GrpcWeb(&'static str),
}

impl Protocol {
    /// A content type alone, which any client can send, makes no gRPC of a request: caches and
    /// alerts would take its refusal for success.
    pub(super) fn of<Q>(request: &Request<Q>) -> Self {
        let kind = request
            .headers()
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        // Also `application/grpc+proto`, and parameters.
        let is = |prefix: &str| {
            let (head, rest) = kind.split_at_checked(prefix.len()).unwrap_or_default();
            head.eq_ignore_ascii_case(prefix.as_bytes())
                && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
        };
        match *request.method() {
            Method::POST if is("application/grpc-web") => Self::GrpcWeb("application/grpc-web"),
            Method::POST if is("application/grpc-web-text") => {
                Self::GrpcWeb("application/grpc-web-text")
            }
            Method::POST if is("application/grpc") && request.version() == Version::HTTP_2 => {
                Self::Grpc
            }
            _ => Self::Http,
        }
    }

    /// The answer to a request that was refused.
    pub(super) fn refusal<B>(self, error: &RateLimitError) -> Response<LimitedBody<B>> {
        #[cfg_attr(
            not(feature = "tonic"),
            allow(unused_mut, reason = "details are of tonic")
        )]
        let mut response = self.translated(
            error.to_http_response(),
            grpc::code(error),
            &error.public_message(),
        );
        #[cfg(feature = "tonic")]
        if !matches!(self, Self::Http) {
            response
                .headers_mut()
                .extend(crate::adapter::tonic::details_field(error));
        }
        response
    }

    /// The answer to a request that has no key.
    pub(super) fn no_key<B>(self, no_key: NoKey<B>) -> Response<LimitedBody<B>> {
        match no_key {
            NoKey::Answer(mut response) => {
                keep_out_of_caches(response.headers_mut());
                response.map(LimitedBody::served)
            }
            NoKey::Refused(error) => self.refusal(&error),
            NoKey::Rejected(rejection) => {
                if let Some(error) = rejection.misconfigured() {
                    return self.refusal(&error);
                }
                let code = grpc::code_without_key(rejection);
                self.translated(rejection.to_http_response(), code, &rejection.to_string())
            }
        }
    }

    /// The answer over HTTP, or in its place a status of gRPC with the same fields.
    fn translated<B>(
        self,
        over_http: Response<String>,
        code: u8,
        message: &str,
    ) -> Response<LimitedBody<B>> {
        let (status, kind) = match self {
            Self::Http => return over_http.map(LimitedBody::refused),
            Self::Grpc => (StatusCode::OK, "application/grpc"),
            Self::GrpcWeb(kind) => (over_http.status(), kind),
        };
        let mut response = over_http.map(|_| LimitedBody::refused(String::new()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert("grpc-status", u16::from(code).into());
        // Messages of this crate are plain ASCII, so nothing has to be escaped.
        let message = HeaderValue::from_str(message);
        headers.extend(message.map(|message| (HeaderName::from_static("grpc-message"), message)));
        response
    }
}

/// The answer of a layer on tower to a request that has no key: a response, a [`KeyRejection`] or a
/// [`RateLimitError`]. None of them is to be stored by caches, unless the response says so itself.
#[allow(
    unnameable_types,
    unreachable_pub,
    reason = "what errors of key functions become"
)]
#[derive(Debug)]
pub enum NoKey<B> {
    Answer(Response<B>),
    Rejected(KeyRejection),
    Refused(RateLimitError),
}

impl<B> From<Response<B>> for NoKey<B> {
    fn from(response: Response<B>) -> Self {
        Self::Answer(response)
    }
}

/// As the [`Responses`](crate::Responses) of the limiter in force have it, or a status of gRPC.
impl<B> From<KeyRejection> for NoKey<B> {
    fn from(rejection: KeyRejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// As the [`Responses`](crate::Responses) of the limiter in force have it, or a status of gRPC.
impl<B> From<RateLimitError> for NoKey<B> {
    fn from(error: RateLimitError) -> Self {
        Self::Refused(error)
    }
}

//! Refusals as gRPC statuses, and parts of keys from gRPC requests.

use http::{Response, StatusCode};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::client_ip::{client_ip, lines, peer};
use super::header_key::{HeaderKey, NamedHeader};
use super::layer::header_update::keep_out_of_caches;
use super::layer::{Grpc, NoKey};
use super::tower::Protocol;
use crate::decision::Measure;
use crate::limiter::find;
use crate::{ClientIp, KeyRejection, RateLimitError};

/// `RESOURCE_EXHAUSTED`, `INVALID_ARGUMENT` for a cost above the limit, `UNAVAILABLE` or
/// `INTERNAL`, and the metadata `retry-after` in whole seconds, rounded up, where waiting helps. A
/// mistake in the setup is logged, not told to the client.
///
/// The details are those of `google.rpc`: `RetryInfo` with the exact delay where waiting helps, and
/// where a limit refuses `QuotaFailure`, whose subject is the last part of the rule's name, or what
/// [`Responses::rule_names`](crate::Responses::rule_names) has in its place. No detail holds a key.
impl From<RateLimitError> for Status {
    fn from(error: RateLimitError) -> Self {
        error.log_if_misconfigured();
        let mut status = detailed(&error);
        if let Some(seconds) = error.retry_after_seconds() {
            status
                .metadata_mut()
                .insert("retry-after", MetadataValue::from(seconds));
        }
        status
    }
}

/// The status of a refusal with its details, without metadata.
fn detailed(error: &RateLimitError) -> Status {
    let (code, message) = (code(error), error.public_message());
    let mut details = ErrorDetails::new();
    let (rule, description) = match error {
        RateLimitError::Exceeded(decision) => {
            let limit = decision.limit();
            let description = match decision.measure {
                Measure::Max => format!("at most {limit} in {:?}", decision.window()),
                Measure::Calendar => format!("at most {limit} in a calendar period"),
                Measure::Burst => format!("at most {limit} at once"),
                Measure::InFlight => format!("at most {limit} at a time"),
            };
            (decision.rule(), description)
        }
        RateLimitError::CostExceedsLimit { rule, limit, .. } => {
            (*rule, format!("at most {limit} at once"))
        }
        RateLimitError::Unavailable(_) | RateLimitError::Misconfigured(_) => {
            return refused(code, message);
        }
    };
    if let Some(name) = find::responses().names.of(rule) {
        details.add_quota_failure_violation(name, description);
    }
    // Without a delay, `RetryInfo` would tell clients to retry at once.
    if let Some(delay) = error.retry_after() {
        details.set_retry_info(Some(delay));
    }
    let status = Status::with_error_details(code, message, details);
    out_of_caches(status)
}

/// The code of an error. A call that is too heavy is refused however often it is made, and clients
/// retry after `RESOURCE_EXHAUSTED`.
fn code(error: &RateLimitError) -> Code {
    match error {
        RateLimitError::Exceeded(_) => Code::ResourceExhausted,
        RateLimitError::CostExceedsLimit { .. } => Code::InvalidArgument,
        RateLimitError::Unavailable(_) => Code::Unavailable,
        RateLimitError::Misconfigured(_) => Code::Internal,
    }
}

/// The peer of the connection, or what [`TrustedProxies`](crate::TrustedProxies) report: in a key,
/// `key = ClientIp::try_from(&request)?`.
impl<T> TryFrom<&Request<T>> for ClientIp {
    type Error = Status;

    fn try_from(request: &Request<T>) -> Result<Self, Status> {
        let peer = peer(request.extensions());
        Ok(client_ip(
            peer.ok_or(KeyRejection::UnknownPeer("")),
            request.extensions().get(),
            lines(request.metadata().as_ref()),
        )?)
    }
}

/// From the metadata of a request: in a key, `key = HeaderKey::<ApiKey>::try_from(&request)?`.
impl<T, N: NamedHeader> TryFrom<&Request<T>> for HeaderKey<N> {
    type Error = Status;

    fn try_from(request: &Request<T>) -> Result<Self, Status> {
        Ok(Self::of(request.metadata().as_ref())?)
    }
}

/// A status that replaces a handler's response. Its HTTP response is a `200` that caches must not
/// store.
fn refused(code: Code, message: String) -> Status {
    out_of_caches(Status::new(code, message))
}

fn out_of_caches(mut status: Status) -> Status {
    status
        .metadata_mut()
        .insert("cache-control", MetadataValue::from_static("no-store"));
    status
}

/// `INVALID_ARGUMENT`, `UNAUTHENTICATED` with
/// [`Responses::unauthorized`](crate::Responses::unauthorized), or `INTERNAL` where the peer is not
/// known.
impl From<KeyRejection> for Status {
    fn from(rejection: KeyRejection) -> Self {
        if let Some(error) = rejection.misconfigured() {
            return error.into();
        }
        let code = match rejection.http_status() {
            StatusCode::UNAUTHORIZED => Code::Unauthenticated,
            _ => Code::InvalidArgument,
        };
        refused(code, rejection.to_string())
    }
}

impl Protocol for Grpc {
    fn refusal(error: RateLimitError) -> Response<String> {
        Status::from(error).into_http()
    }

    fn rejection(rejection: KeyRejection) -> Response<String> {
        Status::from(rejection).into_http()
    }

    fn is_refusal<B>(response: &Response<B>) -> bool {
        let status = response.headers().get("grpc-status");
        status.is_some_and(|status| status == "8") // RESOURCE_EXHAUSTED
    }
}

impl<B> From<Status> for NoKey<Response<B>> {
    fn from(status: Status) -> Self {
        let mut response = status.into_http();
        keep_out_of_caches(response.headers_mut());
        Self::Text(Box::new(response))
    }
}

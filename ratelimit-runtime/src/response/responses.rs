//! [`Responses`]: how refusals look over HTTP.

use std::fmt;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::Told;
use super::fields;
use crate::decision::Decision;
use crate::error::RateLimitError;

/// How refusals look over HTTP; a setting of the limiter:
/// [`RateLimiterBuilder::responses`](crate::RateLimiterBuilder::responses).
///
/// | error | status | header fields |
/// | --- | --- | --- |
/// | `Exceeded` | 429 | `Retry-After`, `RateLimit-Policy`, `RateLimit` |
/// | `CostExceedsLimit` | 429 | |
/// | `Unavailable` | 503 | |
/// | `Misconfigured` | 500 | |
///
/// `Retry-After` is in whole seconds, rounded up. `RateLimit-Policy` and `RateLimit` are those of
/// [draft-ietf-httpapi-ratelimit-headers-10](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/10/): a rule
/// `login` of 5 a minute says `"login";q=5;w=60` and, refused, `"login";r=0;t=31`. Further limits of a rule are
/// `"login/2"` and so on; of a name with dots, as paths of functions have, clients are told what follows the last. What is misconfigured is logged, not told to the client.
///
/// ```
/// use ratelimit_runtime::{RateLimiter, Responses};
///
/// # fn main() -> Result<(), ratelimit_runtime::RateLimitError> {
/// let limiter = RateLimiter::builder().responses(Responses::new().problem_json().legacy_headers(true)).build()?;
/// # let _ = limiter;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Responses {
    body: Body,
    pub(crate) legacy: bool,
}

/// The type of a body, and the body.
type Content = (&'static str, String);

#[derive(Clone, Default)]
enum Body {
    #[default]
    Envelope,
    Problem,
    Custom(Arc<dyn Fn(&RateLimitError) -> Content + Send + Sync>),
}

impl Responses {
    /// `{"code":429,"message":"too many requests, try again in 31s","data":null}`, as `application/json`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Problem details as RFC 9457 has them, of the type `application/problem+json`: `type`, `title`, `status` and
    /// `detail`, and for a limit that is used up the `violated-policies`.
    #[must_use]
    pub fn problem_json(mut self) -> Self {
        self.body = Body::Problem;
        self
    }

    /// A body of your own, with its type. `Display` of the error is made for operators where it is `Misconfigured`: do not
    /// show that to clients.
    #[must_use]
    pub fn body(mut self, body: impl Fn(&RateLimitError) -> (&'static str, String) + Send + Sync + 'static) -> Self {
        self.body = Body::Custom(Arc::new(body));
        self
    }

    /// Whether to send `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (in seconds) as well: no unless
    /// set.
    #[must_use]
    pub fn legacy_headers(mut self, on: bool) -> Self {
        self.legacy = on;
        self
    }

    /// The response that an error is.
    pub(crate) fn response(&self, error: &RateLimitError) -> Response<String> {
        error.log_if_misconfigured();
        let status = error.http_status();
        let (kind, body) = match &self.body {
            Body::Envelope => ("application/json", envelope(status, error)),
            Body::Problem => ("application/problem+json", problem(status, error).to_string()),
            Body::Custom(body) => body(error),
        };
        let mut fields = vec![("content-type", kind.to_owned()), ("cache-control", "no-store".to_owned())];
        fields.extend(error.retry_after_seconds().map(|seconds| ("retry-after", seconds.to_string())));
        if let Some(decision) = error.decision() {
            fields.extend(fields::of_refusal(decision, self.legacy));
        }
        let mut response = Response::new(body);
        *response.status_mut() = status;
        for (name, value) in fields {
            response
                .headers_mut()
                .extend(HeaderValue::from_str(&value).map(|value| (HeaderName::from_static(name), value)));
        }
        response.extensions_mut().insert(Told);
        response
    }
}

impl fmt::Debug for Responses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = match self.body {
            Body::Envelope => "envelope",
            Body::Problem => "problem+json",
            Body::Custom(_) => "custom",
        };
        f.debug_struct("Responses").field("body", &body).field("legacy_headers", &self.legacy).finish()
    }
}

/// By hand, because the field order is part of what clients have come to expect.
fn envelope(status: StatusCode, error: &RateLimitError) -> String {
    let message = Value::from(error.public_message());
    let code = status.as_u16();
    format!(r#"{{"code":{code},"message":{message},"data":null}}"#)
}

fn problem(status: StatusCode, error: &RateLimitError) -> Value {
    let (title, code) = (status.canonical_reason(), status.as_u16());
    let mut problem = json!({"type": "about:blank", "title": title, "status": code, "detail": error.public_message()});
    if let (Some(decision), Some(fields)) = (error.decision(), problem.as_object_mut()) {
        fields.insert("type".to_owned(), json!("https://iana.org/assignments/http-problem-types#quota-exceeded"));
        fields.insert("violated-policies".to_owned(), json!([policy_of(decision)]));
    }
    problem
}

fn policy_of(decision: &Decision) -> String {
    fields::name(decision.rule(), decision.limit_index())
}

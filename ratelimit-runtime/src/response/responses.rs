//! [`Responses`]: the responses to refusals over HTTP.

use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{Response, StatusCode};

#[cfg(feature = "_layer")]
use super::RefusalDecision;
use super::body::Body;
use super::names::PublicNames;
use super::request::answered;
use super::{KeyRejection, Refusal, fields};
use crate::error::RateLimitError;

/// The responses to refusals over HTTP, which are sent in place of the handler's; a setting of the
/// limiter: [`RateLimiterBuilder::responses`](crate::RateLimiterBuilder::responses).
///
/// | why | status | header fields |
/// | --- | --- | --- |
/// | `Exceeded` | 429 | `Retry-After`, `RateLimit-Policy`, `RateLimit` |
/// | `CostExceedsLimit` | 413, or what [`cost_exceeds_limit`](Self::cost_exceeds_limit) says | |
/// | `Unavailable` | 503 | |
/// | `Misconfigured` | 500 | |
/// | a header that is a key is missing | 400, or 401 with [`unauthorized`](Self::unauthorized) | `WWW-Authenticate` with 401 |
/// | a header that is a key appears more than once | 400 | |
/// | the client's address is unknown | 500, or 400 if a trusted proxy names no client | |
///
/// All of them have a body of one shape, and `Cache-Control: no-store`. `Retry-After` is in whole
/// seconds, rounded up. A mistake in the setup is logged, not told to the client.
///
/// `RateLimit-Policy` and `RateLimit` are those of
/// [draft-ietf-httpapi-ratelimit-headers-10](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/10/),
/// an expired draft: a rule `login` of 5 a minute says `"login";q=5;w=60` and, refused,
/// `"login";r=0;t=31`.
///
/// - `t` of a refusal is the wait, as in `Retry-After`. Of an admitted call it is the time until
///   the limit is unused: where units come back one by one, the first of them do so sooner.
/// - Further limits of a rule are `"login/2"` and so on. A name stands once, over all layers and
///   the handler: with the item that refuses, or else has the least left.
/// - A bucket whose burst is not its `max` has it in a parameter of its own,
///   `"upload";q=1000;w=3600;burst=50`: what it admits at once, and so the most that `r` can be.
///   Outside of a layer such a refusal is sent without `RateLimit-Policy`.
/// - Of a name with dots, such as a function's path, clients get the part after the last dot. `%`,
///   control characters and characters beyond ASCII are percent-encoded: `müde` is `"m%C3%BCde"`.
///   [`rule_names`](Self::rule_names) gives clients other names, or none.
///
/// ```
/// use ratelimit_runtime::{RateLimiter, Responses};
///
/// # fn main() -> Result<(), ratelimit_runtime::RateLimitError> {
/// let responses = Responses::new()
///     .problem_json()
///     .legacy_headers(true)
///     .unauthorized("ApiKey")
///     .cost_exceeds_limit(422);
/// let limiter = RateLimiter::builder().responses(responses).build()?;
/// # let _ = limiter;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Responses {
    body: Body,
    pub(crate) names: PublicNames,
    pub(crate) legacy: bool,
    /// The status of a cost above the limit; `None` for 413.
    cost_exceeds_limit: Option<u16>,
    challenge: Option<String>,
}

impl Responses {
    /// Responses with `{"code":429,"message":"too many requests, try again in 31s","data":null}`,
    /// as `application/json`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the body a problem by RFC 9457, of the type `application/problem+json`: `type`,
    /// `title`, `status` and `detail`, and `violated-policies` for a limit that is used up.
    #[must_use]
    pub fn problem_json(mut self) -> Self {
        self.body = Body::Problem;
        self
    }

    /// Makes the body and its media type by a function of your own. Behind a
    /// [`RateLimitLayer`](crate::RateLimitLayer) it may depend on the [request](Refusal::request),
    /// of which each layer then makes a copy. A media type that no header can hold is logged, and
    /// not sent.
    ///
    /// ```
    /// use ratelimit_runtime::{Refusal, Responses};
    ///
    /// fn body(refusal: &Refusal<'_>) -> (&'static str, String) {
    ///     let id = refusal.request().and_then(|request| request.headers.get("x-request-id"));
    ///     ("text/plain", format!("{refusal}, request {id:?}"))
    /// }
    ///
    /// let responses = Responses::new().body(body);
    /// # let _ = responses;
    /// ```
    #[must_use]
    pub fn body(
        mut self,
        body: impl Fn(&Refusal<'_>) -> (&'static str, String) + Send + Sync + 'static,
    ) -> Self {
        self.body = Body::Custom(std::sync::Arc::new(body));
        self
    }

    /// Sets whether `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (in
    /// seconds, as `t`) are sent as well; not by default. They are those of the rule that refuses,
    /// or of the rule with the least left, over all layers.
    #[must_use]
    pub fn legacy_headers(mut self, on: bool) -> Self {
        self.legacy = on;
        self
    }

    /// Sets the names of rules that clients see, in place of the rules' own: in `RateLimit-Policy`
    /// and `RateLimit`, and in the details of problems and of gRPC. A rule whose name is `None`
    /// appears in none of them, nor in `X-RateLimit-*`; a refusal by it still has `Retry-After`.
    /// Other names are sent whole; of the rule's own name, clients still get the part after the
    /// last dot.
    ///
    /// ```
    /// use ratelimit_runtime::Responses;
    ///
    /// let responses = Responses::new().rule_names(|rule| match rule {
    ///     "login-email" | "login-address" => None,
    ///     "orders-v2" => Some("orders"),
    ///     rule => Some(rule),
    /// });
    /// # let _ = responses;
    /// ```
    #[must_use]
    pub fn rule_names(
        mut self,
        name: impl Fn(&str) -> Option<&str> + Send + Sync + 'static,
    ) -> Self {
        self.names = PublicNames::new(name);
        self
    }

    /// Sets the status of a call that costs more than its limit ever admits, which is 413 by
    /// default. Many clients retry after a 429, although this call is refused however long they
    /// wait. A status below 400 or above 599 is `Misconfigured` when the limiter is built.
    #[must_use]
    pub fn cost_exceeds_limit(mut self, status: u16) -> Self {
        self.cost_exceeds_limit = Some(status);
        self
    }

    /// Answers a request without the header that is its key by 401 and this `WWW-Authenticate`
    /// instead of 400: for keys that are credentials. `challenge` is a scheme with its parameters,
    /// such as `Bearer` or `ApiKey realm="orders"`; text that a header cannot hold is
    /// `Misconfigured` when the limiter is built. In gRPC the code is `UNAUTHENTICATED`.
    #[must_use]
    pub fn unauthorized(mut self, challenge: impl Into<String>) -> Self {
        self.challenge = Some(challenge.into());
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// `Misconfigured` if a setting cannot be part of a response.
    pub(crate) fn check(&self) -> Result<(), RateLimitError> {
        if let Some(status) = self.cost_exceeds_limit
            && !(400..600).contains(&status)
        {
            return Err(RateLimitError::misconfigured(format!(
                "`Responses::cost_exceeds_limit` takes a status from 400 to 599, such as 413 or \
                 422, not {status}"
            )));
        }
        if let Some(challenge) = &self.challenge
            && (challenge.trim().is_empty() || HeaderValue::from_str(challenge).is_err())
        {
            return Err(RateLimitError::misconfigured(format!(
                "`Responses::unauthorized` takes the value of a header, such as \"Bearer\", not \
                 {challenge:?}"
            )));
        }
        Ok(())
    }

    /// The status of the response to `error`.
    pub(crate) fn status(&self, error: &RateLimitError) -> StatusCode {
        match error {
            RateLimitError::Exceeded(_) => StatusCode::TOO_MANY_REQUESTS,
            RateLimitError::CostExceedsLimit { .. } => {
                let status = self
                    .cost_exceeds_limit
                    .and_then(|status| StatusCode::from_u16(status).ok());
                debug_assert!(
                    status.is_some() || self.cost_exceeds_limit.is_none(),
                    "a limiter is not built with another status"
                );
                status.unwrap_or(StatusCode::PAYLOAD_TOO_LARGE)
            }
            RateLimitError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            RateLimitError::Misconfigured(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The status of a request without a key.
    pub(crate) fn status_without_key(&self, rejection: KeyRejection) -> StatusCode {
        match rejection {
            KeyRejection::UnknownPeer(_) => StatusCode::INTERNAL_SERVER_ERROR,
            KeyRejection::MissingHeader(_) if self.challenge.is_some() => StatusCode::UNAUTHORIZED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// The response to `error`.
    pub(crate) fn response(&self, error: &RateLimitError) -> Response<String> {
        error.log_if_misconfigured();
        let mut response = self.render(Refusal::of_error(self.status(error), error));
        let headers = response.headers_mut();
        headers.extend(
            error
                .retry_after_seconds()
                .map(|seconds| (RETRY_AFTER, seconds.into())),
        );
        if let Some(decision) = error.decision() {
            for (name, value) in fields::of_refusal(decision, &self.names, self.legacy) {
                headers.extend(
                    HeaderValue::from_str(&value)
                        .map(|value| (HeaderName::from_static(name), value)),
                );
            }
            #[cfg(feature = "_layer")]
            response
                .extensions_mut()
                .insert(RefusalDecision::alone(*decision));
        }
        response
    }

    /// The response to a request without a key, with this status.
    pub(crate) fn response_without_key(
        &self,
        status: StatusCode,
        message: &str,
    ) -> Response<String> {
        let mut response = self.render(Refusal::without_key(status, message));
        if let (StatusCode::UNAUTHORIZED, Some(challenge)) = (status, &self.challenge) {
            let challenge = HeaderValue::from_str(challenge);
            response
                .headers_mut()
                .extend(challenge.map(|challenge| (WWW_AUTHENTICATE, challenge)));
        }
        response
    }

    /// `true` if responses may depend on the request.
    #[cfg(feature = "_layer")]
    pub(crate) fn read_requests(&self) -> bool {
        self.body.reads_requests()
    }

    fn render(&self, refusal: Refusal<'_>) -> Response<String> {
        let request = answered();
        let refusal = refusal.answering(request.as_deref());
        let (kind, body) = self.body.of(&refusal, &self.names);
        let mut response = Response::new(body);
        *response.status_mut() = refusal.http_status();
        let headers = response.headers_mut();
        match HeaderValue::from_str(kind) {
            Ok(kind) => drop(headers.insert(CONTENT_TYPE, kind)),
            Err(_) => RateLimitError::misconfigured(format!(
                "`Responses::body` gives a media type, such as \"text/plain\", not {kind:?}"
            ))
            .log_if_misconfigured(),
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

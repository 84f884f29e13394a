//! [`Told`]: header fields of rate limits in responses.

use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};

use crate::observe::Observation;
use crate::response::{Field, Refusal, fields};

/// In the extensions of a response: its fields are those of one refusal. A layer that knows of all decisions replaces them.
#[derive(Debug, Clone, Copy)]
pub(in crate::adapter) struct Told;

impl Told {
    pub(in crate::adapter) fn response<B: From<String>>(refusal: &Refusal) -> Response<B> {
        let mut response = Response::new(B::from(refusal.body.clone()));
        *response.status_mut() = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for field in &refusal.fields {
            if let Some((name, value)) = header(field) {
                response.headers_mut().insert(name, value);
            }
        }
        response.extensions_mut().insert(Self);
        response
    }
}

/// Writes what was decided for a response into it.
pub(super) fn tell<B>(response: &mut Response<B>, decisions: &[Observation], legacy: bool) {
    let was_told = response.extensions_mut().remove::<Told>().is_some();
    for field in &fields(decisions, legacy) {
        let Some((name, value)) = header(field) else { continue };
        let is_legacy = name.as_str().starts_with("x-");
        if was_told || is_legacy {
            response.headers_mut().insert(name, value);
        } else {
            // A layer further in may have told of others.
            response.headers_mut().append(name, value);
        }
    }
    // A handler may have answered with a status and no more.
    let refused = decisions.iter().rev().map(Observation::decision).find(|decision| !decision.is_allowed());
    if let Some(refused) = refused
        && matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
        && !response.headers().contains_key(RETRY_AFTER)
    {
        let wait = refused.retry_after();
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

fn header((name, value): &Field) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?))
}

//! [`Body`]: the body of a refusal.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::fields;
use super::names::PublicNames;
use super::refusal::Refusal;
use crate::error::RateLimitError;

/// The media type of a body, and the body.
pub(super) type Content = (&'static str, String);

/// The form of a refusal's body.
#[derive(Clone, Default)]
pub(super) enum Body {
    #[default]
    Envelope,
    Problem,
    Custom(Arc<dyn Fn(&Refusal<'_>) -> Content + Send + Sync>),
}

impl Body {
    pub(super) fn of(&self, refusal: &Refusal<'_>, names: &PublicNames) -> Content {
        match self {
            Self::Envelope => ("application/json", envelope(refusal)),
            Self::Problem => (
                "application/problem+json",
                problem(refusal, names).to_string(),
            ),
            Self::Custom(body) => body(refusal),
        }
    }

    /// `true` if the body may depend on the request.
    #[cfg(feature = "_layer")]
    pub(super) fn reads_requests(&self) -> bool {
        matches!(self, Self::Custom(_))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Envelope => "envelope",
            Self::Problem => "problem+json",
            Self::Custom(_) => "custom",
        })
    }
}

/// The JSON envelope, written by hand because clients rely on the order of its fields.
fn envelope(refusal: &Refusal<'_>) -> String {
    let message = Value::from(refusal.message());
    let code = refusal.status();
    format!(r#"{{"code":{code},"message":{message},"data":null}}"#)
}

#[allow(clippy::indexing_slicing, reason = "an object takes any name")]
fn problem(refusal: &Refusal<'_>, names: &PublicNames) -> Value {
    let (title, code) = (
        refusal
            .http_status()
            .canonical_reason()
            .unwrap_or("Refused"),
        refusal.status(),
    );
    let mut problem =
        json!({"type": "about:blank", "title": title, "status": code, "detail": refusal.message()});
    let decision = refusal.error().and_then(RateLimitError::decision);
    if let Some(decision) = decision {
        problem["type"] = "https://iana.org/assignments/http-problem-types#quota-exceeded".into();
        if let Some(rule) = names.of(decision.rule()) {
            let policy = fields::name(rule, decision.limit_index());
            problem["violated-policies"] = json!([policy]);
        }
    }
    problem
}

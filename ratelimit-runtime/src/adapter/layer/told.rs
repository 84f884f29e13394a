//! What was decided, as header fields for a response.

use crate::decision::whole_seconds;
use crate::observe::Observation;
use crate::response::fields;

/// A response as it is before a layer writes into it.
pub(in crate::adapter) struct Before {
    /// Whether it says that the call was refused or could not be decided.
    pub(in crate::adapter) says_no: bool,
    pub(in crate::adapter) was_told: bool,
    pub(in crate::adapter) has_retry_after: bool,
}

/// A field for a response.
pub(in crate::adapter) struct Telling {
    pub(in crate::adapter) name: &'static str,
    pub(in crate::adapter) value: String,
    /// Whether it takes the place of another; else it stands beside what a layer further in has told.
    pub(in crate::adapter) replaces: bool,
}

/// What a layer writes into a response.
pub(in crate::adapter) fn tell(before: &Before, decisions: &[Observation], legacy: bool) -> Vec<Telling> {
    let telling = |(name, value): (&'static str, String)| {
        let is_list = name.starts_with("ratelimit");
        Telling { name, value, replaces: before.was_told || !is_list }
    };
    let mut all: Vec<Telling> = fields(decisions, legacy).into_iter().map(telling).collect();
    // A handler may have answered with a status and no more.
    let refused = decisions.iter().rev().map(Observation::decision).find(|decision| !decision.is_allowed());
    if let Some(refused) = refused
        && before.says_no
        && !before.has_retry_after
    {
        let value = whole_seconds(refused.retry_after()).to_string();
        all.push(Telling { name: "retry-after", value, replaces: true });
    }
    all
}

/// Writes that into a response whose head is of the crate `http`, as those of poem and tower are.
#[cfg(any(feature = "poem", feature = "tower"))]
pub(in crate::adapter) fn write(
    status: http::StatusCode,
    was_told: bool,
    headers: &mut http::HeaderMap,
    (decisions, legacy): (&[Observation], bool),
) {
    // RESOURCE_EXHAUSTED and UNAVAILABLE.
    let grpc = headers.get("grpc-status").is_some_and(|code| matches!(code.as_bytes(), b"8" | b"14"));
    let before = Before {
        says_no: matches!(status.as_u16(), 429 | 503) || grpc,
        was_told,
        has_retry_after: headers.contains_key(http::header::RETRY_AFTER),
    };
    for Telling { name, value, replaces } in tell(&before, decisions, legacy) {
        let Ok(value) = http::HeaderValue::from_str(&value) else { continue };
        if replaces {
            headers.insert(name, value);
        } else {
            headers.append(name, value);
        }
    }
}

//! What was decided, as header fields for a response.

use crate::observe::Observation;
use crate::response::fields;

/// A response as it is before a layer writes into it.
pub(in crate::adapter) struct Before {
    pub(in crate::adapter) status: u16,
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
        && matches!(before.status, 429 | 503)
        && !before.has_retry_after
    {
        let wait = refused.retry_after();
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        all.push(Telling { name: "retry-after", value: seconds.to_string(), replaces: true });
    }
    all
}

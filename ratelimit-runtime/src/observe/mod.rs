//! Decisions, as the log, metrics and code see them: [`collect`] returns those that were made while
//! a future ran.
//!
//! Each decision (an admission, a refusal or a failure) is observed here once, before its call goes
//! on, and so are the events of a store and of its connections. They go to the log (`tracing`), to
//! metrics (with the feature `metrics`), and to collectors, also those by which adapters write
//! response headers. `guide::observability` lists all names.

mod collector;
#[cfg(feature = "redis")]
mod connection;
pub(crate) mod episodes;
mod labels;
pub(crate) mod log;
#[cfg_attr(not(feature = "metrics"), path = "no_metrics.rs")]
mod metrics;
mod observation;
mod series;
mod survive;

pub use self::collector::collect;
#[cfg(feature = "_layer")]
pub(crate) use self::collector::{DecisionsByRule, collect_by_rule};
#[cfg(feature = "redis")]
pub(crate) use self::connection::{ConnectionState, ObservedConnection};
#[cfg(feature = "redis")]
pub(crate) use self::metrics::command_sent;
pub(crate) use self::metrics::{describe, timed};
pub use self::observation::Observation;

#[cfg(feature = "watch")]
use std::path::Path;

use self::labels::OutcomeLabel;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::rule::{Name, Terms};

/// Counts a decision that neither the log nor a collector takes.
#[inline]
pub(crate) fn count(decision: impl FnOnce() -> Decision, shadow: bool) {
    metrics::decision(|| {
        let decision = decision();
        (
            decision.rule,
            OutcomeLabel::of(&decision, shadow),
            Some(decision.source),
        )
    });
}

/// Counts the part of an actual cost that is not charged, as the debt of limits is bounded.
#[inline]
pub(crate) fn cost_dropped(rule: Name, dropped: u64) {
    if dropped > 0 {
        metrics::add(series::COST_DROPPED, &[("rule", rule.as_str())], dropped);
    }
}

/// Counts a call of this rule as in flight, or as ended.
#[inline]
pub(crate) fn in_flight(rule: Name, begins: bool) {
    let by = if begins { 1.0 } else { -1.0 };
    metrics::move_gauge(series::IN_FLIGHT, &[("rule", rule.as_str())], by);
}

/// Reports that a call in flight lost its permit: its lease ended, and no permit is free.
#[cfg(feature = "redis")]
#[cold]
pub(crate) fn permit_lost(rule: &'static str) {
    metrics::add(series::PERMITS_LOST, &[("rule", rule)], 1);
    log::permit_lost(rule);
}

/// Counts and logs the end of a grant: the units taken ahead, the units `left` unspent, and those
/// of them given back.
#[cfg(feature = "redis")]
pub(crate) fn prefetched(granted: u64, left: u64, given_back: u64) {
    let spent = granted - left;
    for (units, count) in [
        ("granted", granted),
        ("spent", spent),
        ("given_back", given_back),
    ] {
        metrics::add(series::PREFETCHED, &[("units", units)], count);
    }
    log::prefetched(granted, spent, given_back);
}

/// `true` if the log or a collector takes such decisions.
#[inline]
pub(crate) fn listens(allowed: bool, shadow: bool) -> bool {
    log::listens(allowed, shadow) || collector::listens()
}

/// Counts a decision by these terms, and gives it to the log and the collector. `is_settled`:
/// whether the charge is final.
#[cold]
pub(crate) fn decision(decision: &Decision, terms: &Terms, shadow: bool, is_settled: bool) {
    count(|| *decision, shadow);
    if log::listens(decision.is_allowed(), shadow) {
        log::decision(decision, shadow);
    }
    if collector::listens() {
        collector::decision(|| Observation::new(decision, terms, shadow, is_settled));
    }
}

/// Counts and logs the error of a check, and tells the collector.
#[cold]
pub(crate) fn failed(rule: Name, error: &RateLimitError) {
    #[cfg(feature = "_layer")]
    collector::failed();
    metrics::decision(|| (rule, OutcomeLabel::of_error(error), None));
    log::failed(rule.as_str(), error);
}

/// Logs that so many policies of a file are in force, and begins to count its changes at 0: of a
/// counter that begins at 1, monitoring sees no increase.
#[cfg(feature = "watch")]
pub(crate) fn policies_watched(file: &Path, policies: usize) {
    for change in ["replaced", "refused"] {
        metrics::add(series::POLICY_CHANGES, &[("change", change)], 0);
    }
    log::policies_in_force(file, &Ok(policies));
}

/// Counts and logs a change of a file of policies, which is in force now, or cannot be used.
#[cfg(feature = "watch")]
pub(crate) fn policies_changed(file: &Path, outcome: &Result<usize, RateLimitError>) {
    let change = if outcome.is_ok() {
        "replaced"
    } else {
        "refused"
    };
    metrics::add(series::POLICY_CHANGES, &[("change", change)], 1);
    log::policies_in_force(file, outcome);
}

/// Logs that a store gave this error, and which `source` answers instead, if any.
#[cold]
pub(crate) fn no_answer(rule: Name, source: Option<Source>, error: &StoreError) {
    if error.kind() == StoreErrorKind::Full {
        log::full(error);
    }
    if let Some(source) = source {
        log::degraded(rule.as_str(), source, error);
    }
}

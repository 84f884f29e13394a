//! Observing: each decision passes here once, admitted, refused or failed, before its call goes on;
//! and so do the events of a store and of its connections.
//!
//! It goes to the log (`tracing`), to counters and histograms (`metrics`, with the feature of that
//! name), and to what [collects](collect) the decisions of a future: tests, and adapters that
//! write response headers. `guide::observability` lists all names.

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
#[cfg(feature = "redis")]
pub(crate) use self::connection::{ConnectionState, ObservedConnection};
#[cfg(feature = "redis")]
pub(crate) use self::metrics::command_sent;
pub(crate) use self::metrics::{describe, timed};
pub use self::observation::Observation;

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

/// Counts the part of an actual cost above the debt that limits keep, which is not charged.
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

/// A call in flight has lost its place: its lease had ended, and no place is free.
#[cfg(feature = "redis")]
#[cold]
pub(crate) fn permit_lost(rule: &'static str) {
    metrics::add(series::PERMITS_LOST, &[("rule", rule)], 1);
    log::permit_lost(rule);
}

/// Whether the log or a collector takes such decisions.
#[inline]
pub(crate) fn listens(allowed: bool, shadow: bool) -> bool {
    log::listens(allowed, shadow) || collector::listens()
}

/// Counts a decision by these terms, and tells the log and the collector. `is_settled` says whether
/// the charge is final.
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

/// A check ended with an error.
#[cold]
pub(crate) fn failed(rule: Name, error: &RateLimitError) {
    metrics::decision(|| (rule, OutcomeLabel::of_error(error), None));
    log::failed(rule.as_str(), error);
}

/// A file of policies has changed, and is in force now, or cannot be used.
#[cfg(feature = "watch")]
pub(crate) fn policies_changed(file: &std::path::Path, outcome: &Result<(), RateLimitError>) {
    let change = if outcome.is_ok() {
        "replaced"
    } else {
        "refused"
    };
    metrics::add(series::POLICY_CHANGES, &[("change", change)], 1);
    log::policies_changed(file, outcome);
}

/// A store gave this error; `source` answers instead, if anything does.
#[cold]
pub(crate) fn no_answer(rule: Name, source: Option<Source>, error: &StoreError) {
    if error.kind() == StoreErrorKind::Full {
        log::full(error);
    }
    if let Some(source) = source {
        log::degraded(rule.as_str(), source, error);
    }
}

//! Decisions, by rule, outcome and source.

use ::metrics::{Key, Label, with_recorder};
use once_cell::sync::OnceCell;

use super::super::labels::{self, OutcomeLabel};
#[cfg(feature = "redis")]
use super::PERMITS_LOST;
use super::{COST_DROPPED, DECISIONS, METADATA};
use crate::decision::Source;
use crate::rule::Name;

const OUTCOMES: usize = OutcomeLabel::Misconfigured as usize + 1;
const SOURCES: usize = Source::Nobody as usize + 1;

#[inline]
pub(crate) fn decision(decided: impl FnOnce() -> (Name, OutcomeLabel, Source)) {
    let (rule, outcome, source) = decided();
    let place = outcome as usize * SOURCES + source as usize;
    add(rule, place, outcome, || labels::source(source));
}

/// A check that was not decided.
pub(crate) fn failure(failed: impl FnOnce() -> (Name, OutcomeLabel)) {
    let (rule, outcome) = failed();
    add(rule, outcome as usize * SOURCES, outcome, || "none");
}

/// What a call did cost and was not charged.
#[cold]
pub(crate) fn cost_dropped(rule: Name, dropped: u64) {
    let key = Key::from_parts(COST_DROPPED, vec![Label::from_static_parts("rule", rule.as_str())]);
    with_recorder(|recorder| recorder.register_counter(&key, &METADATA).increment(dropped));
}

/// A call in flight has lost its place.
#[cfg(feature = "redis")]
#[cold]
pub(crate) fn permit_lost(rule: &'static str) {
    let key = Key::from_parts(PERMITS_LOST, vec![Label::from_static_parts("rule", rule)]);
    with_recorder(|recorder| recorder.register_counter(&key, &METADATA).increment(1));
}

#[inline]
fn add(rule: Name, place: usize, outcome: OutcomeLabel, source: impl FnOnce() -> &'static str) {
    // Each key is made when it is first needed. Like names, of which there are so many at most,
    // they are never forgotten.
    let series = rule.series().get_or_init(|| (0..OUTCOMES * SOURCES).map(|_| OnceCell::new()).collect());
    let Some(key) = series.get(place) else { return };
    let key = key.get_or_init(|| key_of(rule, outcome, source()));
    with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
}

/// Recorders copy a key that owns nothing without taking memory.
#[cold]
fn key_of(rule: Name, outcome: OutcomeLabel, source: &'static str) -> Key {
    let labels = [("outcome", outcome.as_str()), ("rule", rule.as_str()), ("source", source)];
    let labels = labels.map(|(label, value)| Label::from_static_parts(label, value));
    Key::from_static_labels(DECISIONS, Box::leak(Box::new(labels)))
}

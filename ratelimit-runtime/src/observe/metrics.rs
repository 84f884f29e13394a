//! Counters, gauges and histograms, by the facade `metrics`. Names and labels are those of
//! guide/observability.md. A label is the name of a rule or a server, or a word of this crate: no
//! key.
//!
//! The recorder is asked for its counter at each count, and no handle is kept. So a recorder that
//! is installed late, belongs to a test's thread or forgets idle series misses nothing from then
//! on.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Instant;

use ::metrics::{Key, Label, Level, Metadata, Unit, with_recorder};
use once_cell::sync::OnceCell;

use super::labels::{self, OutcomeLabel};
use super::series::{self, Labels};
use super::survive::survive;
use crate::decision::Source;
use crate::error::StoreError;
use crate::rule::Name;

static METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

const METRICS: &[(Kind, &str, &str)] = &[
    (
        Kind::Counter,
        series::DECISIONS,
        "Checks, by rule, by what became of them, and by who answered.",
    ),
    (
        Kind::Counter,
        series::COST_DROPPED,
        "What calls did cost and were not charged: debts are bounded; by rule.",
    ),
    (
        Kind::Gauge,
        series::IN_FLIGHT,
        "Calls in flight of this process, by rule.",
    ),
    (
        Kind::Histogram,
        series::STORE,
        "How long checks waited for the store, by its server.",
    ),
    #[cfg(feature = "watch")]
    (
        Kind::Counter,
        series::POLICY_CHANGES,
        "Changes of a watched file of policies, by whether they are in force.",
    ),
    #[cfg(feature = "redis")]
    (
        Kind::Counter,
        series::PERMITS_LOST,
        "Calls in flight that have lost their permits and went on, by rule.",
    ),
    #[cfg(feature = "redis")]
    (
        Kind::Counter,
        series::PREFETCHED,
        "Units that were taken ahead, by what became of them.",
    ),
    #[cfg(feature = "redis")]
    (
        Kind::Histogram,
        series::COMMANDS,
        "How many decisions one command to Redis carried.",
    ),
    #[cfg(feature = "redis")]
    (
        Kind::Gauge,
        series::CONNECTIONS,
        "Connections of this process to a Redis server, by their state.",
    ),
    #[cfg(feature = "redis")]
    (
        Kind::Counter,
        series::CONNECTS,
        "Connections to a Redis server that were made.",
    ),
    #[cfg(feature = "redis")]
    (
        Kind::Counter,
        series::LOSSES,
        "Connections to a Redis server that were lost.",
    ),
    #[cfg(feature = "redis")]
    (
        Kind::Counter,
        series::OUTAGES,
        "How often a Redis server ceased to serve.",
    ),
];

/// Describes the metrics to the recorder.
pub(crate) fn describe() {
    with_recorder(|recorder| {
        for (kind, name, text) in METRICS {
            let unit = Some(if *name == series::STORE {
                Unit::Seconds
            } else {
                Unit::Count
            });
            let (name, text) = ((*name).into(), (*text).into());
            match kind {
                Kind::Counter => recorder.describe_counter(name, unit, text),
                Kind::Gauge => recorder.describe_gauge(name, unit, text),
                Kind::Histogram => recorder.describe_histogram(name, unit, text),
            }
        }
    });
}

/// The key of the series that `name` and `labels` make.
fn key(name: &'static str, labels: Labels<'_>) -> Key {
    let label = |(label, value): &(&'static str, &str)| Label::new(*label, (*value).to_owned());
    Key::from_parts(name, labels.iter().map(label).collect::<Vec<_>>())
}

pub(super) fn add(counter: &'static str, labels: Labels<'_>, more: u64) {
    let key = key(counter, labels);
    survive(|| {
        with_recorder(|recorder| recorder.register_counter(&key, &METADATA).increment(more));
    });
}

pub(super) fn move_gauge(gauge: &'static str, labels: Labels<'_>, by: f64) {
    let key = key(gauge, labels);
    survive(|| with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).increment(by)));
}

#[cfg(feature = "redis")]
pub(super) fn set(gauge: &'static str, labels: Labels<'_>, value: u32) {
    let key = key(gauge, labels);
    survive(|| with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).set(value)));
}

const OUTCOMES: usize = OutcomeLabel::Misconfigured as usize + 1;
const SOURCES: usize = Source::Nobody as usize + 1;

/// Counts a decision, or a check that ended with an error. There may be millions in a second: the
/// series of a rule are made when they are first needed and, like its name, never freed.
#[inline]
pub(crate) fn decision(decided: impl FnOnce() -> (Name, OutcomeLabel, Option<Source>)) {
    let (rule, outcome, source) = decided();
    let all = rule
        .series()
        .get_or_init(|| (0..OUTCOMES * SOURCES).map(|_| OnceCell::new()).collect());
    // Checks without a decision have outcomes of their own.
    let Some(known) =
        all.get(outcome as usize * SOURCES + source.map_or(0, |source| source as usize))
    else {
        debug_assert!(false, "there is a series for each outcome and source");
        return;
    };
    let key = known.get_or_init(|| {
        let source = source.map_or("none", labels::source);
        let labels = [
            ("outcome", outcome.as_str()),
            ("rule", rule.as_str()),
            ("source", source),
        ];
        let labels = labels.map(|(label, value)| Label::from_static_parts(label, value));
        // Recorders copy a key that owns nothing without taking memory.
        Key::from_static_labels(series::DECISIONS, Box::leak(Box::new(labels)))
    });
    with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
}

/// Measures how long a request waits for the answer of this server, if it waits at all.
pub(crate) async fn timed<'a, T>(
    server: impl FnOnce() -> &'a str,
    asked: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let since = Instant::now();
    let (mut asked, mut waited) = (pin!(asked), false);
    let answer = poll_fn(|cx| {
        let answer = asked.as_mut().poll(cx);
        waited |= answer.is_pending();
        answer
    });
    let answer = answer.await;
    if waited {
        let result = labels::result(answer.as_ref().err().map(StoreError::kind));
        let key = key(series::STORE, &[("result", result), ("server", server())]);
        with_recorder(|recorder| {
            recorder
                .register_histogram(&key, &METADATA)
                .record(since.elapsed());
        });
    }
    answer
}

/// Records that a command for this many decisions is about to be sent to a Redis server. The
/// recorder is foreign code, so no lock may be held.
#[cfg(feature = "redis")]
pub(crate) fn command_sent(decisions: usize) {
    static KEY: Key = Key::from_static_name(series::COMMANDS);
    let decisions = u32::try_from(decisions).unwrap_or(u32::MAX);
    survive(|| {
        with_recorder(|recorder| {
            recorder
                .register_histogram(&KEY, &METADATA)
                .record(decisions);
        });
    });
}

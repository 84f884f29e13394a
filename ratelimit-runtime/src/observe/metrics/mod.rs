//! What is counted and measured, by the facade `metrics`. Names and labels are what
//! guide/observability.md says. A label is the name of a rule or of a server, or a word
//! of this crate: never a key.
//!
//! The recorder is asked for its counter whenever something is counted, and nothing of its own is
//! kept: so one that is installed late, that of a test's thread, and one that forgets what was idle
//! for long miss nothing from then on.

#[cfg(feature = "redis")]
mod connections;
mod decisions;
mod in_flight;
mod latency;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Instant;

#[cfg(any(feature = "redis", feature = "watch"))]
use ::metrics::Key;
#[cfg(feature = "watch")]
use ::metrics::Label;
use ::metrics::{Level, Metadata, Unit, with_recorder};

#[cfg(feature = "redis")]
pub(super) use self::connections::{connected, lost, moved, outage};
#[cfg(feature = "redis")]
pub(super) use self::decisions::permit_lost;
pub(super) use self::decisions::{cost_dropped, decision, failure};
pub(super) use self::in_flight::in_flight;
use crate::error::StoreError;

const DECISIONS: &str = "ratelimit_decisions_total";
const COST_DROPPED: &str = "ratelimit_cost_dropped_total";
const IN_FLIGHT: &str = "ratelimit_in_flight";
#[cfg(feature = "redis")]
const PERMITS_LOST: &str = "ratelimit_permits_lost_total";
#[cfg(feature = "watch")]
const POLICY_CHANGES: &str = "ratelimit_policy_changes_total";
const STORE: &str = "ratelimit_store_seconds";
#[cfg(feature = "redis")]
const COMMANDS: &str = "ratelimit_command_decisions";
#[cfg(feature = "redis")]
const CONNECTIONS: &str = "ratelimit_connections";
#[cfg(feature = "redis")]
const CONNECTS: &str = "ratelimit_connects_total";
#[cfg(feature = "redis")]
const LOSSES: &str = "ratelimit_connection_losses_total";
#[cfg(feature = "redis")]
const OUTAGES: &str = "ratelimit_outages_total";

static METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Says to the recorder what the metrics mean.
pub(crate) fn describe() {
    with_recorder(|recorder| {
        let counter = |name: &'static str, text: &'static str| {
            recorder.describe_counter(name.into(), Some(Unit::Count), text.into());
        };
        let histogram = |name: &'static str, unit, text: &'static str| {
            recorder.describe_histogram(name.into(), Some(unit), text.into());
        };
        counter(DECISIONS, "Checks, by rule, by what became of them, and by who answered.");
        counter(COST_DROPPED, "What calls did cost and were not charged, because debts are bounded, by rule.");
        #[cfg(feature = "watch")]
        counter(POLICY_CHANGES, "Changes of a watched file of policies, by whether they were put in force.");
        recorder.describe_gauge(
            IN_FLIGHT.into(),
            Some(Unit::Count),
            "Calls in flight of this process, by rule.".into(),
        );
        histogram(STORE, Unit::Seconds, "How long checks waited for the store, by its server.");
        #[cfg(feature = "redis")]
        {
            counter(PERMITS_LOST, "Calls in flight that have lost their places and went on, by rule.");
            histogram(COMMANDS, Unit::Count, "How many decisions one command to Redis carried.");
            recorder.describe_gauge(
                CONNECTIONS.into(),
                Some(Unit::Count),
                "Connections of this process to a Redis server, by their state.".into(),
            );
            counter(CONNECTS, "Connections to a Redis server that were made.");
            counter(LOSSES, "Connections to a Redis server that were lost.");
            counter(OUTAGES, "How often a Redis server ceased to serve.");
        }
    });
}

/// A watched file of policies has changed.
#[cfg(feature = "watch")]
pub(super) fn policies_changed(is_in_force: bool) {
    let change = Label::from_static_parts("change", if is_in_force { "replaced" } else { "refused" });
    let key = Key::from_parts(POLICY_CHANGES, vec![change]);
    with_recorder(|recorder| recorder.register_counter(&key, &METADATA).increment(1));
}

/// Measures how long an answer of this server is waited for.
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
        let took = since.elapsed();
        let key = latency::key(server(), answer.as_ref().err().map(StoreError::kind));
        with_recorder(|recorder| recorder.register_histogram(key, &METADATA).record(took));
    }
    answer
}

/// A command that asks a Redis server for so many decisions is about to be sent. The recorder is
/// foreign code, so no lock may be held.
#[cfg(feature = "redis")]
pub(crate) fn command_sent(decisions: usize) {
    static KEY: Key = Key::from_static_name(COMMANDS);
    let decisions = u32::try_from(decisions).unwrap_or(u32::MAX);
    with_recorder(|recorder| recorder.register_histogram(&KEY, &METADATA).record(decisions));
}

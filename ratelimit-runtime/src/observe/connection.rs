//! [`ObservedConnection`]: the state of one connection to a server, for log and metrics.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{log, metrics, series};
use crate::error::{StoreError, StoreErrorKind};

/// The state of a connection, as calls that need it find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Calls wait for the connection: nothing has failed yet.
    Connecting,
    Up,
    /// There is a connection, but the server does not serve.
    Slow,
    Down,
}

/// One connection to a server, and the connections that replace it. Metrics count it for its server
/// until it is dropped.
#[derive(Debug)]
pub(crate) struct ObservedConnection {
    server: Box<str>,
    state: ConnectionState,
    outage: Option<Outage>,
}

/// A time in which the server does not serve.
#[derive(Debug)]
struct Outage {
    since: Instant,
    /// `true` once a mistake in the settings was logged as the reason.
    by_settings: bool,
}

impl ObservedConnection {
    /// A connection to the server that has this name in metrics.
    pub(crate) fn new(server: String) -> Self {
        let connection = Self {
            server: server.into(),
            state: ConnectionState::Connecting,
            outage: None,
        };
        moved(&connection.server, None, Some(connection.state));
        // Of a counter that begins at 1, monitoring sees no increase.
        for counter in [series::LOSSES, series::OUTAGES] {
            metrics::add(counter, &[("server", &connection.server)], 0);
        }
        connection
    }

    pub(crate) fn set_state(&mut self, state: ConnectionState) {
        let last = std::mem::replace(&mut self.state, state);
        if last != state {
            moved(&self.server, Some(last), Some(state));
        }
    }

    /// Counts and logs that a connection was made.
    pub(crate) fn connected(&self, server: &dyn Display) {
        metrics::add(series::CONNECTS, &[("server", &self.server)], 1);
        log::connected(server);
    }

    /// Counts and logs that a connection was lost.
    pub(crate) fn lost(&self, server: &dyn Display, lasted: Duration, error: &StoreError) {
        metrics::add(series::LOSSES, &[("server", &self.server)], 1);
        log::lost(server, lasted, error);
    }

    /// Reports that the server does not serve: once until it does, and once more if a setting turns
    /// out to be the reason, because callers then get another answer. A full server is no outage:
    /// callers get the answer of any full store.
    pub(crate) fn failing(&mut self, server: &dyn Display, error: &StoreError) {
        if error.kind() == StoreErrorKind::Full {
            return log::full(error);
        }
        let by_settings = error.kind() == StoreErrorKind::Misconfigured;
        match &mut self.outage {
            Some(outage) if outage.by_settings || !by_settings => return,
            Some(outage) => outage.by_settings = true,
            None => {
                metrics::add(series::OUTAGES, &[("server", &self.server)], 1);
                let since = Instant::now();
                self.outage = Some(Outage { since, by_settings });
            }
        }
        if by_settings {
            log::misconfigured(server, error);
        } else {
            log::outage(server, error);
        }
    }

    pub(crate) fn recovered(&mut self, server: &dyn Display) {
        if let Some(outage) = self.outage.take() {
            log::recovered(server, outage.since.elapsed());
        }
    }
}

impl Drop for ObservedConnection {
    /// Logs the end of an outage, so that each has one.
    fn drop(&mut self) {
        if let Some(outage) = self.outage.take() {
            log::dropped(&self.server, outage.since.elapsed());
        }
        moved(&self.server, Some(self.state), None);
    }
}

/// The number of connections of this process in each of [`STATES`], by server. A server without
/// connections has no entry.
static NOW: Mutex<BTreeMap<Box<str>, [u32; 4]>> = Mutex::new(BTreeMap::new());

const STATES: [(ConnectionState, &str); 4] = [
    (ConnectionState::Connecting, "connecting"),
    (ConnectionState::Up, "up"),
    (ConnectionState::Slow, "slow"),
    (ConnectionState::Down, "down"),
];

/// Counts the change of a connection's state, which is `None` before it begins and after it ends.
fn moved(server: &str, from: Option<ConnectionState>, to: Option<ConnectionState>) {
    // Locked until the metrics are set, so that the last figures set are the current ones.
    let mut now = NOW.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = now.entry(server.into()).or_default();
    for ((state, name), count) in STATES.into_iter().zip(counts.iter_mut()) {
        debug_assert!(
            *count > 0 || from != Some(state),
            "a connection is counted where it is"
        );
        *count =
            (*count + u32::from(to == Some(state))).saturating_sub(u32::from(from == Some(state)));
        metrics::set(
            series::CONNECTIONS,
            &[("server", server), ("state", name)],
            *count,
        );
    }
    if *counts == [0; 4] {
        now.remove(server);
    }
}

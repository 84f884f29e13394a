//! [`LinkStatus`]: what a link and its task tell each other and callers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use redis::Cmd;

use super::connect::Connector;
use super::connection::Connection;
use super::upstream::Upstream;
use crate::error::StoreError;

/// How late the task of a link may be before its runtime counts as one that is not driven.
const LATE: Duration = Duration::from_millis(100);

/// What a link is for.
#[derive(Debug, Clone)]
pub(crate) struct LinkSettings {
    /// What leads to the server: a `Server`, or sentinels.
    pub(crate) upstream: Arc<dyn Upstream>,
    /// The limiter's timeout in microseconds, which a server is measured by.
    pub(crate) timeout_us: Arc<AtomicU64>,
    /// How many connections have been made: one more before calls use a new one.
    pub(crate) epoch: Arc<AtomicU64>,
    /// Commands that each new connection sends before calls use it, such as those that load
    /// scripts. An error in reply does not matter.
    pub(crate) greeting: Arc<[Cmd]>,
}

impl LinkSettings {
    /// The timeout of limiters that were not told another, in microseconds.
    pub(crate) const TIMEOUT_US: u64 = 100_000;
}

/// What a caller finds.
#[derive(Debug, Clone)]
pub(crate) enum LinkStatus {
    /// The first attempt after a start or a loss: worth waiting for.
    Connecting,
    Up(Arc<Connection>),
    /// It is connected and does not answer in time: callers fail at once, with this.
    Slow(Arc<Connection>, StoreError),
    /// It is away: callers fail at once, with this.
    Down(StoreError),
}

/// What a link and its task tell each other beside the status.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) connector: Connector,
    pub(super) born: Instant,
    /// When the task is due, in milliseconds after `born`; `u64::MAX` if it waits for callers only.
    pub(super) due_ms: AtomicU64,
    /// A call wants a connection.
    pub(super) wanted: AtomicBool,
    pub(super) is_replica: AtomicBool,
}

impl Shared {
    pub(super) fn want(&self) {
        if !self.wanted.swap(true, Relaxed) {
            self.connector.wake();
        }
    }

    pub(super) fn set_due(&self, due: Option<Instant>) {
        let due = due.map_or(u64::MAX, |due| millis(due.saturating_duration_since(self.born)));
        self.due_ms.store(due, Relaxed);
    }

    /// Whether the task has not had its turn for long: a runtime that runs only while a caller
    /// blocks on it has to be waited for, or it would never get to know that a server is back.
    pub(super) fn is_late(&self) -> bool {
        millis(self.born.elapsed()) > self.due_ms.load(Relaxed).saturating_add(millis(LATE))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

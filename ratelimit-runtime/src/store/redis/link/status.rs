//! [`LinkStatus`]: the status that a link's task publishes. [`LinkSettings`]: its server and
//! settings.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use redis::Pipeline;

use super::connect::{Connected, connect};
use super::connection::Connection;
use super::sentinel::Sentinels;
use crate::error::StoreError;
use crate::store::redis::settings::server::Server;

/// The time without a turn of its task after which a runtime counts as not driven: the last status
/// then reads as connecting, so that a caller drives the task while it waits. Three beats.
const UNDRIVEN: Duration = Duration::from_millis(150);

/// Called for a new connection.
pub(crate) type OnConnection = Arc<dyn Fn() + Send + Sync>;

/// The server and the settings of a link.
#[derive(Clone)]
pub(crate) struct LinkSettings {
    /// The server; behind sentinels, the master has its login and TLS wherever it is.
    pub(crate) server: Arc<Server>,
    /// The sentinels that name the master, if any.
    pub(crate) sentinels: Option<Arc<Sentinels>>,
    /// The limiter's timeout in microseconds, by which a server is measured.
    pub(crate) timeout_us: Arc<AtomicU64>,
    /// Called for each connection but the first, before calls use it: the server may have lost
    /// keys since the one before.
    pub(crate) reconnected: OnConnection,
    /// What a new connection has to reply to. `None` for one server without scripts: each probe
    /// then has a command that may write.
    pub(crate) greeting: Option<Arc<Pipeline>>,
}

impl LinkSettings {
    /// The name in metrics, which does not change.
    pub(super) fn name(&self) -> String {
        match &self.sentinels {
            None => self.server.to_string(),
            Some(sentinels) => sentinels.names.name.clone(),
        }
    }

    /// The name of a server reached by these settings, for the log, without secrets.
    pub(super) fn describe(&self, server: &Server) -> String {
        match &self.sentinels {
            None => server.to_string(),
            Some(_) => format!("{server} ({self})"),
        }
    }

    pub(super) async fn connect(&self) -> Result<Connected, StoreError> {
        let greeting = self.greeting.as_deref();
        match &self.sentinels {
            None => connect(&self.server, greeting).await,
            Some(sentinels) => sentinels.connect_to_master(greeting).await,
        }
    }
}

/// The address or the addresses to ask, without secrets.
impl fmt::Display for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sentinels {
            None => self.server.fmt(f),
            Some(sentinels) => sentinels.names.fmt(f),
        }
    }
}

/// The status of a link for callers.
#[derive(Clone)]
pub(crate) enum LinkStatus {
    /// The first attempt after a start or a loss is under way: callers wait for it.
    Connecting,
    Up(Arc<Connection>),
    /// The server is connected and does not answer in time: callers fail at once, with this error.
    Slow(Arc<Connection>, StoreError),
    /// The server is away: callers fail at once, with this error.
    Down(StoreError),
}

impl LinkStatus {
    /// `true` if the server is away as it was before, for the same reason.
    pub(super) fn is_still(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::Slow(_, before), Self::Slow(_, now)) | (Self::Down(before), Self::Down(now)) => {
                (before.kind(), before.message()) == (now.kind(), now.message())
            }
            _ => false,
        }
    }
}

/// The status that the link's task saw last.
pub(crate) struct Published {
    pub(super) status: LinkStatus,
    /// The time of the task's last turn.
    pub(super) at: Instant,
}

impl Published {
    /// `true` if the task has had no turn since, as its runtime is not driven.
    pub(super) fn is_old(&self) -> bool {
        self.at.elapsed() > UNDRIVEN
    }
}

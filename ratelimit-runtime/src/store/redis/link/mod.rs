//! [`Link`]: one server for one tokio runtime: connecting, the connection, its health, reconnecting.
//!
//! A task, [`upkeep`], does all that; callers read the status that it publishes. What it does next
//! is decided in [`health`], without I/O.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use redis::ServerError;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::upkeep::Upkeep;
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::Health;
use crate::store::redis::errors;

mod connect;
mod connection;
mod health;
mod probe;
mod status;
mod stream;
mod upkeep;
mod upstream;
mod vitals;

pub(crate) use self::connect::{Connected, Connector};
pub(crate) use self::connection::{Connection, Lost, look};
pub(crate) use self::probe::Probed;
use self::status::Shared;
pub(crate) use self::status::{LinkSettings, LinkStatus};
pub(crate) use self::upkeep::pause_until;
pub(crate) use self::upstream::{BoxFuture, Upstream};

/// One server for one runtime. When it is dropped, its tasks end.
#[derive(Debug)]
pub(crate) struct Link {
    status: watch::Receiver<LinkStatus>,
    timeout_us: Arc<AtomicU64>,
    shared: Arc<Shared>,
    task: AbortHandle,
}

impl Link {
    /// Whether a link can be started on the runtime of the caller.
    ///
    /// # Errors
    ///
    /// `Misconfigured` on one without timers. One without I/O is told by the status.
    pub(crate) fn can_start() -> Result<(), StoreError> {
        real_time::timers().map_err(|_| {
            StoreError::misconfigured(
                "the Redis store needs the timers and the I/O of its tokio runtime: build it with `enable_all()`",
            )
        })
    }

    /// Connects in the background, on `runtime`, where it [can start](Self::can_start).
    pub(crate) fn start(settings: LinkSettings, runtime: &Handle) -> Self {
        let (publish, status) = watch::channel(LinkStatus::Connecting);
        let shared = Arc::new(Shared {
            connector: Connector::new(Arc::clone(&settings.greeting)),
            born: Instant::now(),
            due_ms: AtomicU64::new(u64::MAX),
            wanted: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
        });
        let timeout_us = Arc::clone(&settings.timeout_us);
        let task = runtime.spawn(Upkeep::new(settings, Arc::clone(&shared), publish).run()).abort_handle();
        Self { status, timeout_us, shared, task }
    }

    pub(crate) fn status(&self) -> LinkStatus {
        let status = self.status.borrow().clone();
        let is_waited_for = match &status {
            LinkStatus::Connecting => true,
            LinkStatus::Up(connection) => connection.has_ended(),
            LinkStatus::Slow(..) | LinkStatus::Down(_) => self.shared.is_late(),
        };
        if is_waited_for {
            self.shared.want();
            return LinkStatus::Connecting;
        }
        status
    }

    /// The status, whose changes are seen here. Look at [`status`](Self::status) after each.
    pub(crate) fn changes(&self) -> watch::Receiver<LinkStatus> {
        let mut changes = self.status.clone();
        changes.mark_unchanged();
        changes
    }

    pub(crate) fn health(&self) -> Health {
        match &*self.status.borrow() {
            LinkStatus::Up(connection) if !connection.has_ended() => Health::Up,
            LinkStatus::Slow(..) => Health::Slow,
            _ => Health::Down,
        }
    }

    /// The connection. Waits for the first attempt after a start or a loss, and for no other.
    pub(crate) async fn connected(&self) -> Result<Arc<Connection>, StoreError> {
        self.wait(|_| true).await
    }

    /// Returns once it is up; an error if waiting is vain (`Misconfigured`).
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        let is_vain = |error: &StoreError| error.kind() == StoreErrorKind::Misconfigured;
        let is_replica = || self.shared.is_replica.load(Acquire);
        match self.wait(|error| is_vain(error) || is_replica()).await {
            Err(error) if !is_vain(&error) && is_replica() => {
                Err(StoreError::misconfigured(format!("{}: name its master", error.message())))
            }
            result => result.map(drop),
        }
    }

    /// Waits for the connection, or for an error that is final.
    async fn wait(&self, is_final: impl Fn(&StoreError) -> bool) -> Result<Arc<Connection>, StoreError> {
        let mut changes = self.changes();
        loop {
            match self.status() {
                LinkStatus::Up(connection) => return Ok(connection),
                LinkStatus::Slow(_, error) | LinkStatus::Down(error) if is_final(&error) => return Err(error),
                _ => {}
            }
            if changes.changed().await.is_err() {
                return Err(StoreError::unavailable("the connection to Redis is closed"));
            }
        }
    }

    /// How long a call waits before the link is doubtful: the limiter's timeout.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_micros(self.timeout_us.load(Relaxed))
    }

    /// A call that was sent at `sent` has waited for a timeout: the link is doubtful, unless
    /// something sent later was answered.
    pub(crate) fn late(&self, connection: &Connection, sent: Instant) {
        if !connection.vitals.has_answered_since(sent) {
            self.doubt(connection);
        }
    }

    #[allow(clippy::unused_self, reason = "its task is woken")]
    fn doubt(&self, connection: &Connection) {
        connection.vitals.tell(&connection.vitals.doubted);
    }

    /// Notes what an error in reply to a call says of the server. One that is busy or loading, or
    /// does not know the login any more, is doubtful: where it says the same to a PING, it is slow,
    /// or another connection logs in anew.
    pub(crate) fn note(&self, connection: &Connection, error: &ServerError) {
        if errors::is_replica(error) {
            connection.vitals.tell(&connection.vitals.is_replica);
        } else if errors::is_no_service(error) || errors::is_logged_out(error) {
            self.doubt(connection);
        }
    }

    /// Lets the runtime read first, if it may have missed the end of the connection: a call is not
    /// sent on one that the server has closed while the runtime stood still.
    pub(crate) async fn look(&self) {
        let is_unread = matches!(&*self.status.borrow(), LinkStatus::Up(connection) if connection.is_unread());
        if is_unread {
            look().await;
        }
    }

    /// Another connection to the same server, logged in, for one caller at a time.
    pub(crate) async fn connect_another(&self) -> Result<Connection, StoreError> {
        let connection = self.connected().await?;
        let (another, probed) = self.shared.connector.connect(connection.server()).await?;
        probed.error().map_or(Ok(another), Err)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

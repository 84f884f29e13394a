//! [`Link`]: one server for one tokio runtime: connecting, the connection, its health, reconnecting.
//!
//! A task, [`upkeep`], does all that; callers read the status that it publishes. What it does next
//! is decided in [`health`], without I/O.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Cmd;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::upkeep::Upkeep;
use self::vitals::lock;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Health;
use crate::store::redis::errors;

mod connect;
mod connection;
mod health;
mod probe;
mod stream;
mod upkeep;
mod upstream;
mod vitals;

pub(crate) use self::connect::{Connected, Connector};
pub(crate) use self::connection::{Connection, Lost, look};
pub(crate) use self::probe::Probed;
pub(crate) use self::upkeep::pause_until;
pub(crate) use self::upstream::{BoxFuture, Upstream};

/// The timeout of limiters that were not told another, in microseconds.
pub(crate) const TIMEOUT_US: u64 = 100_000;

/// How often the task of a link has its turn while the server is away, whatever it waits for; and
/// how late it may be before its runtime counts as one that is not driven: what it last knew then
/// reads as connecting, so that a caller drives the task while it waits.
const BEAT: Duration = Duration::from_millis(50);
const UNDRIVEN: Duration = Duration::from_millis(100);

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

/// One server for one runtime. When it is dropped, its tasks end.
#[derive(Debug)]
pub(crate) struct Link {
    status: watch::Receiver<LinkStatus>,
    timeout_us: Arc<AtomicU64>,
    connector: Connector,
    /// When the task last had its turn.
    last_turn: Arc<Mutex<Instant>>,
    task: AbortHandle,
}

impl Link {
    /// Connects in the background, on `runtime`.
    pub(crate) fn start(settings: LinkSettings, runtime: &Handle) -> Self {
        let (publish, status) = watch::channel(LinkStatus::Connecting);
        let connector = Connector::new(Arc::clone(&settings.greeting));
        let last_turn = Arc::new(Mutex::new(Instant::now()));
        let timeout_us = Arc::clone(&settings.timeout_us);
        let upkeep = Upkeep::new(settings, connector.clone(), Arc::clone(&last_turn), publish);
        let task = runtime.spawn(upkeep.run()).abort_handle();
        Self { status, timeout_us, connector, last_turn, task }
    }

    pub(crate) fn status(&self) -> LinkStatus {
        let status = self.status.borrow().clone();
        match &status {
            LinkStatus::Up(connection) if connection.has_ended() => LinkStatus::Connecting,
            // A runtime that runs only while a caller blocks on it has to be waited for, or it would
            // never get to know that a server is back.
            LinkStatus::Slow(..) | LinkStatus::Down(_) if lock(&self.last_turn).elapsed() > BEAT + UNDRIVEN => {
                LinkStatus::Connecting
            }
            _ => status,
        }
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
        let is_replica = |error: &StoreError| error.message() == errors::replica().message();
        let is_vain = |error: &StoreError| error.kind() == StoreErrorKind::Misconfigured || is_replica(error);
        match self.wait(is_vain).await {
            Err(error) if is_replica(&error) => {
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

    /// Lets the runtime read first, if it may have missed the end of the connection: a call is not
    /// sent on one that the server has closed while the runtime stood still.
    pub(crate) async fn look(&self) {
        let is_unread =
            matches!(&*self.status.borrow(), LinkStatus::Up(connection) if connection.is_unread(Instant::now()));
        if is_unread {
            look().await;
        }
    }

    /// Another connection to the same server, logged in, for one caller at a time.
    pub(crate) async fn connect_another(&self) -> Result<Connection, StoreError> {
        let connection = self.connected().await?;
        let (another, probed) = self.connector.connect(connection.server()).await?;
        probed.error().map_or(Ok(another), Err)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

//! [`Link`]: one server for one tokio runtime: the connection, its health, and reconnecting.
//!
//! A task, [`upkeep`], does all of that, and publishes a status that callers read. [`health`]
//! chooses its next action, without I/O.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::upkeep::Upkeep;
use crate::error::{StoreError, StoreErrorKind};
use crate::pace::SOCKETS_ARE_READ;
use crate::store::Health;
use crate::store::redis::errors;

mod connect;
mod connection;
mod health;
mod probe;
mod sentinel;
mod status;
mod stream;
mod upkeep;

pub(crate) use self::connect::log_in;
pub(crate) use self::connection::{Connection, KeyTurns, Lost};
pub(crate) use self::probe::greeting;
pub(crate) use self::sentinel::Sentinels;
pub(crate) use self::status::{LinkSettings, LinkStatus, OnConnection, Published};

/// One server for one runtime. Dropping it ends its task.
pub(crate) struct Link {
    published: watch::Receiver<Published>,
    timeout_us: Arc<AtomicU64>,
    _upkeep: JoinSet<()>,
}

impl Link {
    /// A link that connects in the background, on `runtime`.
    pub(crate) fn start(settings: LinkSettings, runtime: &Handle) -> Self {
        let (publish, published) = watch::channel(Published {
            status: LinkStatus::Connecting,
            at: Instant::now(),
        });
        let timeout_us = Arc::clone(&settings.timeout_us);
        let mut upkeep = JoinSet::new();
        upkeep.spawn_on(Upkeep::new(settings, publish).run(), runtime);
        Self {
            published,
            timeout_us,
            _upkeep: upkeep,
        }
    }

    pub(crate) fn status(&self) -> LinkStatus {
        let published = self.published.borrow();
        match &published.status {
            LinkStatus::Up(connection) if connection.has_ended() => LinkStatus::Connecting,
            // A runtime that runs only while a caller blocks on it has to be waited for, or it
            // would never get to know that a server is back.
            LinkStatus::Slow(..) | LinkStatus::Down(_) if published.is_old() => {
                LinkStatus::Connecting
            }
            status => status.clone(),
        }
    }

    /// The changes of the status. Read [`status`](Self::status) after each.
    pub(crate) fn changes(&self) -> watch::Receiver<Published> {
        self.published.clone()
    }

    pub(crate) fn health(&self) -> Health {
        match self.status() {
            LinkStatus::Up(_) => Health::Up,
            LinkStatus::Slow(_, error) | LinkStatus::Down(error)
                if error.kind() == StoreErrorKind::Full =>
            {
                Health::Full
            }
            LinkStatus::Slow(..) => Health::Slow,
            LinkStatus::Connecting | LinkStatus::Down(_) => Health::Down,
        }
    }

    /// The connection, once its socket is read if that was long ago. Waits for the first attempt
    /// after a start or a loss, and for no other.
    pub(crate) async fn connected(&self) -> Result<Arc<Connection>, StoreError> {
        self.look().await;
        self.wait(|_| true).await
    }

    /// Waits until the link is up.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, which waiting does not change.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        let in_vain = |error: &StoreError| {
            if error.message() == errors::replica().message() {
                let advice = format!("{}: name its master", error.message());
                return Some(StoreError::misconfigured(advice));
            }
            errors::in_vain(error)
        };
        let connected = self.wait(|error| in_vain(error).is_some()).await;
        connected
            .map(drop)
            .map_err(|error| in_vain(&error).unwrap_or(error))
    }

    /// Waits for the connection, or for an error that is final.
    async fn wait(
        &self,
        is_final: impl Fn(&StoreError) -> bool,
    ) -> Result<Arc<Connection>, StoreError> {
        let mut changes = self.changes();
        loop {
            match self.status() {
                LinkStatus::Up(connection) => return Ok(connection),
                LinkStatus::Slow(_, error) | LinkStatus::Down(error) if is_final(&error) => {
                    return Err(error);
                }
                _ => {}
            }
            if changes.changed().await.is_err() {
                return Err(StoreError::unavailable("the connection to Redis is closed"));
            }
        }
    }

    /// The round trip to the server, at best; zero without a connection.
    pub(crate) fn round_trip(&self) -> Duration {
        match self.status() {
            LinkStatus::Up(connection) => connection.round_trip(),
            _ => Duration::ZERO,
        }
    }

    /// The time without a reply after which a call makes the link doubtful: the limiter's timeout.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_micros(self.timeout_us.load(Relaxed))
    }

    /// Lets the runtime read first, if it may have missed the end of the connection: no call is
    /// sent on a connection that the server closed while the runtime stood still.
    pub(crate) async fn look(&self) {
        if matches!(self.status(), LinkStatus::Up(connection) if connection.is_unread(Instant::now()))
        {
            SOCKETS_ARE_READ.pass().await;
        }
    }
}

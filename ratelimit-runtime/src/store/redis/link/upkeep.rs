//! [`Upkeep`]: the task of a link. It connects, asks the server for its state, connects again, and
//! is the only one to publish the status.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

use super::connect::Connected;
use super::connection::Connection;
use super::health::{Action, LinkHealth, LinkState};
use super::probe::{Probed, probe};
use super::status::{LinkSettings, LinkStatus, Published};
use crate::error::StoreError;
use crate::observe;
use crate::pace::REPLIES_ARRIVE;
use crate::store::redis::errors;

/// The longest pause between turns of the task while the server is slow or down.
const BEAT: Duration = Duration::from_millis(50);
/// The time for which a replaced connection may still answer its calls in flight.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// The pause after a login that could not be renewed.
const RENEW_AGAIN: Duration = Duration::from_secs(1);
const SILENT: &str = "Redis is connected, and does not answer in time";
const PANICKED: &str = "connecting to Redis panicked: the tokio runtime needs `enable_all()`, TLS \
    needs a rustls crypto provider to be installed first, and a provider of credentials must not \
    panic";

pub(super) struct Upkeep {
    settings: LinkSettings,
    publish: watch::Sender<Published>,
    observer: observe::ObservedConnection,
    health: LinkHealth,
    /// The reason why the server does not serve, if it or an attempt to connect gave one.
    error: Option<StoreError>,
    connection: Option<Arc<Connection>>,
    /// `true` once there was a connection.
    was_connected: bool,
    /// The attempt to connect; or, during a connection, the PING, the wait for another master, and
    /// the attempt that replaces the connection before its login expires.
    tasks: JoinSet<News>,
}

/// The outcome of one of the link's tasks.
enum News {
    Attempted(Box<Result<Connected, StoreError>>),
    Probed(Result<Probed, StoreError>),
    /// Another server is the master.
    Moved,
}

impl Upkeep {
    pub(super) fn new(settings: LinkSettings, publish: watch::Sender<Published>) -> Self {
        Self {
            observer: observe::ObservedConnection::new(settings.name()),
            health: LinkHealth::new(Instant::now()),
            error: None,
            connection: None,
            was_connected: false,
            tasks: JoinSet::new(),
            settings,
            publish,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let wake = self.act();
            self.wait(wake).await;
        }
    }

    /// Takes the due action, and publishes the status. Returns when to call this again.
    fn act(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.health.set_timeout(Duration::from_micros(
            self.settings.timeout_us.load(Relaxed),
        ));
        let (last_reply, used) = match &self.connection {
            Some(connection) => (connection.last_reply(), connection.used.load(Relaxed)),
            None => (now, false),
        };
        let (action, wake) = self.health.due(now, last_reply, used);
        match (action, &self.connection) {
            (Some(Action::Connect), _) => self.connect(Duration::ZERO),
            (Some(Action::Ping), Some(connection)) => {
                connection.used.store(false, Relaxed);
                let connection = Arc::clone(connection);
                let greeting = self.settings.greeting.clone();
                self.tasks.spawn(async move {
                    News::Probed(probe(&connection, greeting.as_deref()).await)
                });
            }
            (Some(Action::HangUp), _) => self.end(StoreError::unavailable(SILENT)),
            _ => {}
        }
        self.publish(now);
        let is_away = matches!(self.health.state(), LinkState::Slow | LinkState::Down);
        let beat = is_away.then(|| now + BEAT);
        wake.into_iter().chain(beat).min()
    }

    /// Waits for the next event, until `wake`.
    async fn wait(&mut self, wake: Option<Instant>) {
        let sleep = async move {
            match wake.map(|wake| wake.saturating_duration_since(Instant::now())) {
                Some(time) => sleep(time).await,
                None => pending().await,
            }
            // On a runtime with thousands of tasks the driver may not have had its turn for long.
            // Before the server is judged, it reads the replies that have arrived.
            REPLIES_ARRIVE.pass().await;
        };
        let told = async {
            match &self.connection {
                Some(connection) => connection.told().await,
                None => pending().await,
            }
        };
        let news = tokio::select! {
            biased;
            () = told => return self.told(),
            Some(news) = self.tasks.join_next() => Some(news),
            () = sleep => None,
        };
        let now = Instant::now();
        if let Some(time) = wake.and_then(|wake| now.checked_duration_since(wake)) {
            self.health.rested(time, now);
        }
        if let Some(news) = news {
            self.hear(news);
        }
    }

    /// Handles a connection that has ended, or is doubtful.
    fn told(&mut self) {
        match &self.connection {
            Some(connection) if connection.has_ended() => self.end(connection.cause()),
            _ => self.health.doubted(Instant::now()),
        }
    }

    fn hear(&mut self, news: Result<News, JoinError>) {
        match news {
            Ok(News::Attempted(attempt)) => self.attempted(*attempt),
            Ok(News::Probed(Ok(Probed::Replica))) => self.end(errors::replica()),
            Ok(News::Probed(Ok(probed))) => self.judge(probed),
            Ok(News::Probed(Err(error))) => self.end(error),
            Ok(News::Moved) => self.end(StoreError::unavailable(
                "another Redis server is the master now",
            )),
            Err(_) => self.attempted(Err(StoreError::misconfigured(PANICKED))),
        }
    }

    /// Starts an attempt to connect, after a pause.
    ///
    /// A login is renewed by a new connection. No AUTH is sent on a connection in use: servers from
    /// Redis 7.2 on may not reply to one that fails, and every later reply would be taken for that
    /// of the command before.
    fn connect(&mut self, pause: Duration) {
        let settings = self.settings.clone();
        self.tasks.spawn(async move {
            sleep(pause).await;
            News::Attempted(Box::new(settings.connect().await))
        });
    }

    fn attempted(&mut self, attempt: Result<Connected, StoreError>) {
        let renews = self.connection.is_some();
        let error = match attempt {
            Ok((connection, _)) if connection.has_ended() => connection.cause(),
            Ok((_, Probed::Replica)) => errors::replica(),
            Ok((connection, probed)) => return self.take(connection, probed),
            Err(error) => error,
        };
        if renews {
            observe::log::login_expires(&self.settings, &error);
            self.connect(RENEW_AGAIN);
        } else {
            self.health.ended(Instant::now());
            self.error = Some(error);
        }
    }

    /// Uses a new connection. If it renews a login, calls in flight are answered on the old one.
    fn take(&mut self, connection: Connection, probed: Probed) {
        let connection = Arc::new(connection);
        if let Some(old) = self.connection.replace(Arc::clone(&connection)) {
            tokio::spawn(async move {
                sleep(LAST_ANSWERS).await;
                old.end(StoreError::unavailable(
                    "another connection to Redis has taken its place",
                ));
            });
        }
        if std::mem::replace(&mut self.was_connected, true) {
            (self.settings.reconnected)();
        }
        self.observer.connected(&self.server());
        if matches!(probed, Probed::RoleUnknown) {
            observe::log::role_unknown(&self.server());
        }
        self.tasks = JoinSet::new();
        if let Some(after) = connection.renew_after {
            self.connect(after);
        }
        if let Some(sentinels) = self.settings.sentinels.clone() {
            self.tasks.spawn(async move {
                sentinels.another_than(&connection.server.address).await;
                News::Moved
            });
        }
        self.health.connected(Instant::now());
        self.judge(probed);
    }

    /// Records the state of the connected server.
    fn judge(&mut self, probed: Probed) {
        if let Probed::Busy(error) = probed {
            self.health.busy(Instant::now());
            self.error = Some(error);
        } else {
            self.health.answered(Instant::now());
        }
    }

    /// Ends the connection, for this reason unless it has ended for another one.
    fn end(&mut self, cause: StoreError) {
        self.tasks = JoinSet::new();
        let server = self.server();
        let Some(connection) = self.connection.take() else {
            debug_assert!(false, "what tells that a connection is over ends with it");
            return;
        };
        connection.end(cause);
        let error = connection.cause();
        self.observer
            .lost(&server, connection.began.elapsed(), &error);
        self.health.ended(Instant::now());
        // While calls wait for the first attempt, nothing has failed yet.
        self.error = (self.health.state() == LinkState::Down).then_some(error);
    }

    /// The server's name in the log: that of the connection, else that of the settings.
    fn server(&self) -> String {
        match &self.connection {
            Some(connection) => self.settings.describe(&connection.server),
            None => self.settings.to_string(),
        }
    }

    /// Publishes the status. It is a change for callers if it differs, or if they may wait for it
    /// because the runtime was not driven.
    fn publish(&mut self, at: Instant) {
        let status = match (self.health.state(), &self.connection) {
            (LinkState::Up, Some(connection)) => {
                self.error = None;
                LinkStatus::Up(Arc::clone(connection))
            }
            (LinkState::Slow, Some(connection)) => {
                let error = self
                    .error
                    .get_or_insert_with(|| StoreError::unavailable(SILENT));
                LinkStatus::Slow(Arc::clone(connection), error.clone())
            }
            (LinkState::Down, _) => LinkStatus::Down(self.error.clone().unwrap_or_else(|| {
                StoreError::unavailable(format!(
                    "no connection to Redis at {} yet; still trying",
                    self.settings
                ))
            })),
            (state, _) => {
                debug_assert!(
                    state == LinkState::Connecting,
                    "a link is up or slow on a connection"
                );
                LinkStatus::Connecting
            }
        };
        let server = self.server();
        match (&status, &self.error) {
            (LinkStatus::Up(_), _) => self.observer.recovered(&server),
            (_, Some(error)) => self.observer.failing(&server, error),
            (_, None) => {}
        }
        self.observer.set_state(self.health.state());
        self.publish.send_if_modified(|published| {
            let is_change = published.is_old() || !published.status.is_still(&status);
            *published = Published { status, at };
            is_change
        });
    }
}

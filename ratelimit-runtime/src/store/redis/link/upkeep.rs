//! [`Upkeep`]: the task of a link. It connects, asks the server how it is, connects again, and alone
//! publishes the status.

use std::future::pending;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::connect::{Connected, Connector};
use super::connection::{Connection, Lost};
use super::health::{Action, Event, LinkHealth, LinkState, PingAnswer};
use super::probe::Probed;
use super::upstream::{BoxFuture, Upstream};
use super::vitals::lock;
use super::{BEAT, LinkSettings, LinkStatus};
use crate::error::StoreError;
use crate::store::redis::errors;
use crate::{observe, real_time};

/// How many times all other tasks have their turn before a server counts as slow: the driver of the
/// connection is woken in the first, reads in the second, and the answer is there in the third.
const TURNS: usize = 3;
/// The time of a connection that has been replaced for what is in flight on it.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// The pause after a login that could not be renewed.
const RENEW_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Upkeep {
    settings: LinkSettings,
    connector: Connector,
    last_turn: Arc<Mutex<Instant>>,
    publish: watch::Sender<LinkStatus>,
    observer: observe::ObservedConnection,
    health: LinkHealth,
    /// What callers are told while the server is away.
    error: StoreError,
    connection: Option<Arc<Connection>>,
    /// One attempt to connect, or none.
    attempt: JoinSet<Result<Connected, StoreError>>,
    /// The connection that takes the place of the current one before its login expires.
    renewal: JoinSet<Connected>,
    probe: Option<BoxFuture<Result<Probed, Lost>>>,
    /// Completes when the upstream leads to another server.
    moved: Option<BoxFuture<()>>,
    has_told_unknown_role: bool,
}

impl Upkeep {
    pub(super) fn new(
        settings: LinkSettings,
        connector: Connector,
        last_turn: Arc<Mutex<Instant>>,
        publish: watch::Sender<LinkStatus>,
    ) -> Self {
        Self {
            observer: observe::ObservedConnection::new(settings.upstream.name()),
            health: LinkHealth::new(Duration::ZERO, Instant::now()),
            error: StoreError::unavailable("there is no connection to Redis yet"),
            connection: None,
            attempt: JoinSet::new(),
            renewal: JoinSet::new(),
            probe: None,
            moved: None,
            has_told_unknown_role: false,
            settings,
            connector,
            last_turn,
            publish,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let wake = self.act();
            self.wait(wake).await;
        }
    }

    /// Does what is due, and publishes the status. Returns when it is to be called again.
    fn act(&mut self) -> Option<Instant> {
        loop {
            let now = Instant::now();
            *lock(&self.last_turn) = now;
            self.health.set_timeout(Duration::from_micros(self.settings.timeout_us.load(Relaxed)));
            let (last_byte, used) = self.connection.as_ref().map_or((now, false), |connection| {
                (connection.vitals.last_byte(), connection.vitals.used.load(Relaxed))
            });
            let state = self.health.state();
            let (action, wake) = self.health.due(now, last_byte, used);
            match (state, self.health.state()) {
                (LinkState::Connecting, LinkState::Down) => {
                    let error = format!("no connection to Redis at {} yet; still trying", self.settings.upstream);
                    self.error = StoreError::unavailable(error);
                }
                (LinkState::Up, LinkState::Slow) => self.fails(silent()),
                _ => {}
            }
            match (action, &self.connection) {
                (Some(Action::Connect), _) => {
                    let upstream = Arc::clone(&self.settings.upstream);
                    self.attempt.spawn(upstream.connect(self.connector.clone()));
                }
                (Some(Action::Ping), Some(connection)) => {
                    connection.vitals.used.store(false, Relaxed);
                    let connection = Arc::clone(connection);
                    self.probe = Some(Box::pin(async move { connection.probe().await }));
                }
                (Some(Action::HangUp), Some(_)) => {
                    self.end(silent(), Event::Ended);
                    continue;
                }
                _ => {}
            }
            self.publish();
            let is_away = matches!(self.health.state(), LinkState::Slow | LinkState::Down);
            let beat = is_away.then(|| now + BEAT);
            return wake.into_iter().chain(beat).min();
        }
    }

    /// Waits for whatever happens next, until `wake`.
    async fn wait(&mut self, wake: Option<Instant>) {
        let is_waiting = self.health.is_waiting();
        let sleep = async move {
            match wake.map(|wake| wake.saturating_duration_since(Instant::now())) {
                Some(time) if is_waiting => real_time::sleep(time).await,
                // An idle connection does not hold up a clock that a test has paused.
                Some(time) => tokio::time::sleep(time).await,
                None => pending().await,
            }
            // On a runtime with thousands of tasks the driver may not have had its turn for long.
            // Before the server is judged, it reads what has come.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = self.connector.woken() => self.told(),
            Some(attempt) = self.attempt.join_next() => self.attempted(attempt),
            Some(renewed) = self.renewal.join_next() => self.renewed(renewed),
            probed = done(&mut self.probe) => self.probed(probed),
            () = done(&mut self.moved) => {
                self.end(StoreError::unavailable("another Redis server is the master now"), Event::Ended);
            }
            () = sleep => {}
        }
    }

    /// Looks at what callers and the driver of the connection have told.
    fn told(&mut self) {
        let Some(vitals) = self.connection.as_ref().map(|connection| &connection.vitals) else { return };
        if vitals.has_ended() {
            self.lose(Event::Ended);
        } else if vitals.is_replica.load(Relaxed) {
            self.end(errors::replica(), Event::Failed);
        } else if vitals.doubted.swap(false, Relaxed) {
            self.health.on(Event::Doubt, Instant::now());
        }
    }

    fn attempted(&mut self, attempt: Result<Result<Connected, StoreError>, JoinError>) {
        let error = match attempt.unwrap_or_else(|error| Err(panicked(&error))) {
            // One that has ended already has told so before it was the link's.
            Ok((connection, _)) if connection.has_ended() => connection.vitals.cause().1,
            Ok((_, Probed::Replica)) => errors::replica(),
            Ok((connection, probed)) => return self.take(connection, probed),
            Err(error) => error,
        };
        self.health.on(Event::Failed, Instant::now());
        self.fails(error);
    }

    /// Another login is used from now on. What is in flight is answered on the old connection.
    fn renewed(&mut self, renewed: Result<Connected, JoinError>) {
        // A provider that panics is not asked again until the connection is over.
        let Some((connection, probed)) = renewed.ok().filter(|(connection, _)| !connection.has_ended()) else { return };
        if let Some(old) = self.connection.take() {
            tokio::spawn(async move {
                real_time::sleep(LAST_ANSWERS).await;
                old.end(StoreError::unavailable("another connection to Redis has taken its place"));
            });
        }
        self.take(connection, probed);
    }

    /// Uses a new connection, in the place of the last.
    fn take(&mut self, connection: Connection, probed: Probed) {
        let connection = Arc::new(connection);
        self.settings.epoch.fetch_add(1, Release);
        self.probe = None;
        self.moved = Some(Arc::clone(&self.settings.upstream).moved_from(Arc::clone(connection.server())));
        self.renewal = JoinSet::new();
        if let Some(after) = connection.renew_after {
            let (upstream, connector) = (Arc::clone(&self.settings.upstream), self.connector.clone());
            self.renewal.spawn(renew(upstream, connector, after));
        }
        self.observer.connected(&self.settings.upstream.describe(connection.server()));
        self.connection = Some(connection);
        self.judge(probed, Event::Connected);
    }

    fn probed(&mut self, probed: Result<Probed, Lost>) {
        match probed {
            // Its driver tells so.
            Err(Lost) => {}
            Ok(Probed::Replica) => self.end(errors::replica(), Event::Failed),
            Ok(Probed::Refused(error)) => self.end(error, Event::Ended),
            Ok(probed) => self.judge(probed, Event::Answered),
        }
    }

    /// Notes how a server is that is connected.
    fn judge(&mut self, probed: Probed, event: fn(PingAnswer) -> Event) {
        if matches!(probed, Probed::RoleUnknown) && !std::mem::replace(&mut self.has_told_unknown_role, true) {
            observe::log::role_unknown(&self.server());
        }
        let error = probed.error();
        let answer = if error.is_some() { PingAnswer::Busy } else { PingAnswer::Serves };
        self.health.on(event(answer), Instant::now());
        match error {
            Some(error) => self.fails(error),
            None if self.health.state() == LinkState::Up => self.observer.recovered(&self.server()),
            None => {}
        }
    }

    /// Ends the connection, for this reason.
    fn end(&mut self, cause: StoreError, event: Event) {
        if let Some(connection) = &self.connection {
            connection.end(cause);
        }
        self.lose(event);
    }

    /// The connection is over.
    fn lose(&mut self, event: Event) {
        (self.probe, self.moved, self.renewal) = (None, None, JoinSet::new());
        let Some(connection) = self.connection.take() else { return };
        let (server, error) = (self.settings.upstream.describe(connection.server()), connection.vitals.cause().1);
        self.observer.lost(&server, connection.vitals.began.elapsed(), &error);
        self.health.on(event, Instant::now());
        if self.health.state() == LinkState::Down {
            self.fails(error);
        } else {
            self.error = error;
        }
    }

    fn fails(&mut self, error: StoreError) {
        self.observer.failing(&self.server(), &error);
        self.error = error;
    }

    /// The server in the log: that of the connection, or what leads to it.
    fn server(&self) -> String {
        let upstream = &self.settings.upstream;
        let connection = self.connection.as_ref();
        connection.map_or_else(|| upstream.to_string(), |connection| upstream.describe(connection.server()))
    }

    /// Publishes the status, also if it is as before: callers who wait for a runtime that was not
    /// driven are told, too.
    fn publish(&mut self) {
        let status = match (self.health.state(), &self.connection) {
            (LinkState::Up, Some(connection)) => LinkStatus::Up(Arc::clone(connection)),
            (LinkState::Slow, Some(connection)) => LinkStatus::Slow(Arc::clone(connection), self.error.clone()),
            (LinkState::Down, _) => LinkStatus::Down(self.error.clone()),
            _ => LinkStatus::Connecting,
        };
        self.observer.set_state(self.health.state());
        self.publish.send_replace(status);
    }
}

/// Logs in anew after this time, again and again until the server serves.
///
/// No AUTH is sent on a connection in use: servers from Redis 7.2 on may leave one that fails
/// without a reply, and every later reply would be taken for that to the command before.
async fn renew(upstream: Arc<dyn Upstream>, connector: Connector, after: Duration) -> Connected {
    let mut due = Instant::now() + after;
    loop {
        pause_until(due).await;
        let error = match Arc::clone(&upstream).connect(connector.clone()).await {
            Ok((connection, probed)) => match probed.clone().error() {
                None => return (connection, probed),
                Some(error) => error,
            },
            Err(error) => error,
        };
        observe::log::login_expires(&upstream, &error);
        due = Instant::now() + RENEW_AGAIN;
    }
}

/// Waits until `at` by real time, and lets a clock that a test has paused move on meanwhile.
pub(crate) async fn pause_until(at: Instant) {
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        tokio::time::sleep(left).await;
    }
}

/// What a future gives, once; pending if there is none.
async fn done<T>(doing: &mut Option<BoxFuture<T>>) -> T {
    let Some(future) = doing else { return pending().await };
    let result = future.await;
    *doing = None;
    result
}

fn silent() -> StoreError {
    StoreError::unavailable("Redis is connected, and does not answer in time")
}

fn panicked(error: &JoinError) -> StoreError {
    if error.is_cancelled() {
        return StoreError::unavailable("connecting to Redis was cut short");
    }
    StoreError::misconfigured(
        "connecting to Redis panicked: the tokio runtime needs `enable_all()`, TLS needs a rustls crypto provider to be \
         installed first, and a provider of credentials must not panic",
    )
}

//! [`Upkeep`]: the task of a link. It connects, asks the server how it is, connects again, and alone
//! publishes the status.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::connect::{Connected, Connector};
use super::connection::{Connection, Lost};
use super::health::{Action, Event, LinkHealth, LinkState, PingAnswer};
use super::probe::{Probed, RoleQuestion};
use super::status::{LinkSettings, LinkStatus, Shared};
use super::upstream::{BoxFuture, Upstream};
use crate::error::StoreError;
use crate::store::redis::errors;
use crate::{observe, real_time};

/// How many times all other tasks have their turn before a server counts as slow: the driver of the
/// connection is woken in the first, reads in the second, and the answer is there in the third.
const TURNS: usize = 3;
/// How often the task of a server that is away has its turn, whatever it waits for.
const BEAT: Duration = Duration::from_millis(50);
/// The time of a connection that has been replaced for what is in flight on it.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// The pause after a login that could not be renewed.
const RENEW_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Upkeep {
    settings: LinkSettings,
    shared: Arc<Shared>,
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
    /// What ends the connections that were replaced.
    replaced: JoinSet<()>,
    probe: Option<BoxFuture<Result<Probed, Lost>>>,
    /// Completes when the upstream leads to another server.
    moved: Option<BoxFuture<()>>,
    has_told_unknown_role: bool,
}

impl Upkeep {
    pub(super) fn new(settings: LinkSettings, shared: Arc<Shared>, publish: watch::Sender<LinkStatus>) -> Self {
        Self {
            observer: observe::ObservedConnection::new(settings.upstream.name()),
            health: LinkHealth::new(Duration::ZERO, Instant::now()),
            error: StoreError::unavailable("there is no connection to Redis yet"),
            connection: None,
            attempt: JoinSet::new(),
            renewal: JoinSet::new(),
            replaced: JoinSet::new(),
            probe: None,
            moved: None,
            has_told_unknown_role: false,
            settings,
            shared,
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
                    self.attempt.spawn(upstream.connect(self.shared.connector.clone()));
                }
                (Some(Action::Ping), Some(connection)) => {
                    connection.vitals.used.store(false, Relaxed);
                    let connection = Arc::clone(connection);
                    self.probe = Some(Box::pin(async move { connection.probe().await }));
                }
                (Some(Action::HangUp), Some(connection)) => {
                    connection.end(silent());
                    self.ended();
                    continue;
                }
                _ => {}
            }
            self.publish(false);
            let is_away = matches!(self.health.state(), LinkState::Slow | LinkState::Down);
            let wake = if is_away { Some(wake.map_or(now + BEAT, |wake| wake.min(now + BEAT))) } else { wake };
            self.shared.set_due(wake.filter(|_| is_away));
            return wake;
        }
    }

    /// Waits for whatever happens next, until `wake`.
    async fn wait(&mut self, wake: Option<Instant>) {
        let is_waiting = self.health.is_waiting();
        let sleep = async move {
            match wake.map(|wake| wake.saturating_duration_since(Instant::now())) {
                Some(time) if is_waiting => real_time::sleep(time).await,
                // An idle connection does not hold up a clock that a test has paused.
                Some(time) => real_time::sleep_by_tokio(time).await,
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
            () = self.shared.connector.woken() => self.told(),
            Some(attempt) = self.attempt.join_next() => self.attempted(attempt),
            Some(renewed) = self.renewal.join_next() => self.renewed(renewed),
            probed = done(&mut self.probe) => self.probed(probed),
            () = done(&mut self.moved) => self.moved(),
            () = sleep => {}
        }
    }

    /// Looks at what callers and the driver of the connection have told.
    fn told(&mut self) {
        let Some(connection) = &self.connection else {
            if self.health.is_idle() && self.shared.wanted.swap(false, Relaxed) {
                self.health.on(Event::Wanted, Instant::now());
            }
            return;
        };
        if connection.has_ended() {
            self.ended();
        } else if connection.vitals.is_replica.load(Relaxed) {
            self.demoted();
        } else if connection.vitals.doubted.swap(false, Relaxed) {
            self.health.on(Event::Doubt, Instant::now());
        }
    }

    fn attempted(&mut self, attempt: Result<Result<Connected, StoreError>, JoinError>) {
        match attempt.unwrap_or_else(|error| Err(panicked(&error))) {
            // One that has ended already has told so before it was the link's.
            Ok((connection, _)) if connection.has_ended() => self.failed(connection.vitals.cause().error),
            Ok((_, Probed::Replica)) => {
                self.shared.is_replica.store(true, Release);
                self.failed(errors::replica());
            }
            Ok((connection, probed)) => self.connected(connection, probed),
            Err(error) => {
                self.shared.is_replica.store(false, Release);
                self.failed(error);
            }
        }
    }

    fn failed(&mut self, error: StoreError) {
        self.health.on(Event::Failed, Instant::now());
        self.fails(error);
        // Callers who wait for a runtime that was not driven are told, too.
        self.publish(true);
    }

    fn connected(&mut self, connection: Connection, probed: Probed) {
        self.shared.is_replica.store(false, Release);
        self.shared.wanted.store(false, Relaxed);
        self.take(connection);
        let error = probed.error();
        let answer = if error.is_some() { PingAnswer::Busy } else { PingAnswer::Serves };
        self.health.on(Event::Connected(answer), Instant::now());
        self.serves_or(error);
    }

    /// Uses a new connection, in the place of the last.
    fn take(&mut self, connection: Connection) {
        let connection = Arc::new(connection);
        self.settings.epoch.fetch_add(1, Release);
        self.probe = None;
        self.moved = Some(Arc::clone(&self.settings.upstream).moved_from(Arc::clone(connection.server())));
        self.renewal = JoinSet::new();
        if let Some(after) = connection.renew_after {
            let (upstream, connector) = (Arc::clone(&self.settings.upstream), self.shared.connector.clone());
            self.renewal.spawn(renew(upstream, connector, after));
        }
        self.observer.connected(&self.settings.upstream.describe(connection.server()));
        self.connection = Some(connection);
        self.tell_unknown_role();
    }

    /// Another login is used from now on. What is in flight is answered on the old connection.
    fn renewed(&mut self, renewed: Result<Connected, JoinError>) {
        // A provider that panics is not asked again until the connection is over.
        let Ok((connection, _)) = renewed else { return };
        if connection.has_ended() {
            return;
        }
        let old = self.connection.take();
        while self.replaced.try_join_next().is_some() {}
        if let Some(old) = old {
            self.replaced.spawn(async move {
                real_time::sleep(LAST_ANSWERS).await;
                old.end(StoreError::unavailable("another connection to Redis has taken its place"));
            });
        }
        self.take(connection);
        self.health.on(Event::Connected(PingAnswer::Serves), Instant::now());
        self.serves_or(None);
    }

    fn probed(&mut self, probed: Result<Probed, Lost>) {
        // Where the connection has ended, its driver tells so.
        let Ok(probed) = probed else { return };
        match probed {
            Probed::Replica => self.demoted(),
            Probed::Refused(error) => {
                if let Some(connection) = &self.connection {
                    connection.end(error);
                }
                self.ended();
            }
            Probed::Master | Probed::Serves => {
                self.health.on(Event::Answered(PingAnswer::Serves), Instant::now());
                self.serves_or(None);
                self.tell_unknown_role();
            }
            Probed::Busy(error) => {
                self.health.on(Event::Answered(PingAnswer::Busy), Instant::now());
                self.serves_or(Some(error));
            }
        }
    }

    /// The connection is over.
    fn ended(&mut self) {
        let used = self.shared.wanted.load(Relaxed);
        let Some((used, error)) =
            self.lose().map(|last| (used || last.vitals.used.load(Relaxed), last.vitals.cause().error))
        else {
            return;
        };
        self.health.on(Event::Ended { used }, Instant::now());
        if self.health.state() == LinkState::Down {
            self.fails(error);
        } else {
            self.error = error;
        }
    }

    /// The server is a replica. The name may lead to its master by now.
    fn demoted(&mut self) {
        if let Some(connection) = &self.connection {
            connection.end(errors::replica());
        }
        self.lose();
        self.shared.is_replica.store(true, Release);
        self.failed(errors::replica());
    }

    /// Another server is the master.
    fn moved(&mut self) {
        if let Some(connection) = &self.connection {
            connection.end(StoreError::unavailable("another Redis server is the master now"));
        }
        self.lose();
        self.health.on(Event::Moved, Instant::now());
    }

    fn lose(&mut self) -> Option<Arc<Connection>> {
        (self.probe, self.moved, self.renewal) = (None, None, JoinSet::new());
        let connection = self.connection.take()?;
        let server = self.settings.upstream.describe(connection.server());
        self.observer.lost(&server, connection.vitals.began.elapsed(), &connection.vitals.cause().error);
        Some(connection)
    }

    /// Tells the log how the server is, if it is up, or is not because of this error.
    fn serves_or(&mut self, error: Option<StoreError>) {
        match error {
            Some(error) => self.fails(error),
            None if self.health.state() == LinkState::Up => self.observer.recovered(&self.server()),
            None => {}
        }
    }

    fn fails(&mut self, error: StoreError) {
        self.observer.failing(&self.server(), &error);
        self.error = error;
    }

    /// The server in the log: that of the connection, or what leads to it.
    fn server(&self) -> String {
        let upstream = &self.settings.upstream;
        self.connection
            .as_ref()
            .map_or_else(|| upstream.to_string(), |connection| upstream.describe(connection.server()))
    }

    fn tell_unknown_role(&mut self) {
        let Some(connection) = &self.connection else { return };
        if connection.role_question() == RoleQuestion::None && !std::mem::replace(&mut self.has_told_unknown_role, true)
        {
            observe::log::role_unknown(&self.server());
        }
    }

    /// Publishes the status if it has changed, or in any case.
    fn publish(&mut self, in_any_case: bool) {
        let state = self.health.state();
        self.observer.set_state(match state {
            LinkState::Connecting => observe::ConnectionState::Connecting,
            LinkState::Up => observe::ConnectionState::Up,
            LinkState::Slow => observe::ConnectionState::Slow,
            LinkState::Down => observe::ConnectionState::Down,
        });
        let status = match (state, &self.connection) {
            (LinkState::Up, Some(connection)) => LinkStatus::Up(Arc::clone(connection)),
            (LinkState::Connecting | LinkState::Up, _) => LinkStatus::Connecting,
            (LinkState::Slow, Some(connection)) => LinkStatus::Slow(Arc::clone(connection), self.error.clone()),
            (LinkState::Slow | LinkState::Down, _) => LinkStatus::Down(self.error.clone()),
        };
        self.publish.send_if_modified(|last| {
            let is_same = match (&*last, &status) {
                (LinkStatus::Up(last), LinkStatus::Up(now)) => Arc::ptr_eq(last, now),
                (LinkStatus::Slow(last, why), LinkStatus::Slow(now, reason)) => {
                    Arc::ptr_eq(last, now) && why.message() == reason.message()
                }
                (LinkStatus::Down(last), LinkStatus::Down(now)) => last.message() == now.message(),
                (LinkStatus::Connecting, LinkStatus::Connecting) => true,
                _ => false,
            };
            *last = status;
            !is_same || in_any_case
        });
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
        real_time::sleep_by_tokio(left).await;
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

//! [`Node`]: one server as one runtime sees it: the state that its supervisor publishes and callers rely on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::{ServerError, Value};
use tokio::sync::{mpsc, watch};

use super::exchange::Exchange;
use super::pool::Pool;
use super::pulse::Pulse;
use super::resolve::Target;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::batching::item::Item;
use crate::store::redis::errors;
use crate::store::redis::wire::question::{NoAnswer, Question};
use crate::store::{Health, Verdict};

pub(crate) mod nodes;
pub(crate) mod probe;

/// Only the supervisor changes it.
#[derive(Clone)]
pub(super) enum Status {
    /// Nobody has failed yet: whoever comes waits.
    Connecting,
    Up(Connected),
    /// Connected to a server that does not serve.
    Slow(StoreError),
    Down(StoreError),
}

#[derive(Clone)]
pub(crate) struct Connected {
    pub(crate) exchange: Exchange,
    /// Further connections, as long as this one lasts.
    pub(crate) pool: Pool,
}

/// What callers tell the supervisor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Report {
    /// A call waited for so long in vain.
    Overdue(Duration),
    /// The server said itself that it does not serve.
    Refused,
    /// Somebody wants to be connected.
    Wanted,
}

pub(crate) struct Node {
    pub(super) status: watch::Sender<Status>,
    /// That of the supervisor.
    pub(crate) pulse: Pulse,
    reports: mpsc::Sender<Report>,
    born: Instant,
    /// Milliseconds after `born` of the last call that found no connection.
    missed_ms: AtomicU64,
}

impl Node {
    /// The receiver is the supervisor's; it ends with the node.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Report>) {
        let (reports, receiver) = mpsc::channel(1);
        let status = watch::Sender::new(Status::Connecting);
        let (pulse, born, missed_ms) = (Pulse::new(), Instant::now(), AtomicU64::new(0));
        (Self { status, pulse, reports, born, missed_ms }, receiver)
    }

    /// A node that never was, and never will be, connected.
    pub(super) fn hopeless(error: StoreError) -> Self {
        let node = Self::new().0;
        node.status.send_replace(Status::Down(error));
        node
    }

    pub(crate) fn health(&self) -> Health {
        match &*self.status.borrow() {
            Status::Up(_) => Health::Up,
            Status::Slow(_) => Health::Slow,
            Status::Connecting | Status::Down(_) => Health::Down,
        }
    }

    /// Tells the supervisor, unless it has not heard the last report yet.
    pub(crate) fn report(&self, report: Report) {
        let _ = self.reports.try_send(report);
    }

    /// The connection. Waits for one while that can be hoped for, and for a supervisor that its
    /// runtime does not drive.
    pub(crate) async fn connected(&self) -> Result<Connected, StoreError> {
        if self.pulse.is_late() && self.health() != Health::Up {
            self.pulse.catch_up().await;
        }
        match &*self.status.borrow() {
            Status::Up(connected) => return Ok(connected.clone()),
            Status::Slow(error) => return Err(error.clone()),
            Status::Down(error) => {
                self.missed();
                return Err(error.clone());
            }
            Status::Connecting => {}
        }
        self.report(Report::Wanted);
        self.wait(|status| !matches!(status, Status::Connecting)).await
    }

    fn exchange(&self) -> Option<Exchange> {
        match &*self.status.borrow() {
            Status::Up(connected) => Some(connected.exchange.clone()),
            _ => None,
        }
    }

    /// Waits until the server serves, or for what no waiting will cure.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        self.report(Report::Wanted);
        let is_final = |status: &Status| match status {
            Status::Connecting => false,
            Status::Up(_) => true,
            Status::Slow(error) | Status::Down(error) => error.kind() == StoreErrorKind::Misconfigured,
        };
        self.wait(is_final).await.map(drop)
    }

    async fn wait(&self, enough: impl Fn(&Status) -> bool) -> Result<Connected, StoreError> {
        let mut statuses = self.status.subscribe();
        match statuses.wait_for(enough).await.as_deref() {
            Ok(Status::Up(connected)) => Ok(connected.clone()),
            Ok(Status::Slow(error) | Status::Down(error)) => Err(error.clone()),
            Ok(Status::Connecting) | Err(_) => Err(StoreError::unavailable("the connection to Redis is closed")),
        }
    }

    /// Asks, and asks again where the question did not leave this process.
    pub(crate) async fn ask(&self, question: impl Fn() -> Question) -> Result<Value, StoreError> {
        loop {
            let connected = self.connected().await?;
            match self.ask_over(&connected, question()).await? {
                Some(reply) => return Ok(reply),
                // The supervisor may not have made it known yet.
                None => self.changed(&connected.exchange).await,
            }
        }
    }

    /// Asks over this very connection; nothing if it is over.
    pub(crate) async fn ask_over(
        &self,
        connected: &Connected,
        question: Question,
    ) -> Result<Option<Value>, StoreError> {
        match connected.exchange.ask(question).await {
            Ok(reply) => {
                self.look_at(connected, &reply);
                Ok(Some(reply))
            }
            Err(NoAnswer::NotAsked) => Ok(None),
            Err(other) => Err(self.no_answer(&connected.exchange, other)),
        }
    }

    /// Asks for a decision, and asks again where the question did not leave this process. The inner error is the
    /// server's reply.
    pub(crate) async fn decide(&self, item: &Item<'_>) -> Result<Result<Verdict, ServerError>, StoreError> {
        loop {
            let exchange = match self.exchange() {
                Some(exchange) => exchange,
                None => self.connected().await?.exchange,
            };
            match exchange.decide(item).await {
                Ok(verdict) => return Ok(Ok(verdict)),
                Err(NoAnswer::NotAsked) => self.changed(&exchange).await,
                Err(NoAnswer::Error(error)) => {
                    self.look_at_error(&exchange, &error);
                    return Ok(Err(error));
                }
                Err(other) => return Err(self.no_answer(&exchange, other)),
            }
        }
    }

    fn no_answer(&self, exchange: &Exchange, why: NoAnswer) -> StoreError {
        match why {
            NoAnswer::Lost(error) | NoAnswer::Refused(error) => error,
            NoAnswer::NotAsked => StoreError::unavailable("the connection to Redis is closed"),
            NoAnswer::TooLate => {
                let text = "too many calls are waiting for Redis to be answered in time";
                StoreError::new(StoreErrorKind::TimedOut, text)
            }
            NoAnswer::Error(error) => {
                self.look_at_error(exchange, &error);
                errors::from_server(&error)
            }
        }
    }

    /// Waits until this connection is not offered any more.
    async fn changed(&self, exchange: &Exchange) {
        let mut statuses = self.status.subscribe();
        let is_other = |status: &Status| match status {
            Status::Up(offered) => !offered.exchange.is_same(exchange),
            _ => true,
        };
        let _ = statuses.wait_for(is_other).await;
    }

    /// What the errors of a server say about the connection to it.
    fn look_at(&self, connected: &Connected, reply: &Value) {
        match reply {
            Value::ServerError(error) => self.look_at_error(&connected.exchange, error),
            Value::Array(replies) => {
                for reply in replies.iter().filter(|reply| matches!(reply, Value::ServerError(_) | Value::Array(_))) {
                    self.look_at(connected, reply);
                }
            }
            _ => {}
        }
    }

    fn look_at_error(&self, exchange: &Exchange, error: &ServerError) {
        if errors::is_replica(error) || errors::is_logged_out(error) {
            // The name may lead to another server by now, or another login may be right.
            exchange.close(errors::from_server(error), false);
        } else if errors::is_no_service(error) {
            // The supervisor sees for itself.
            self.report(Report::Refused);
        }
    }

    /// Ends the connection, on which replies and questions have come apart.
    pub(crate) fn end(&self, error: &StoreError) {
        let exchange = match &*self.status.borrow() {
            Status::Up(connected) => connected.exchange.clone(),
            _ => return,
        };
        exchange.close(error.clone(), true);
    }

    /// From now on nobody waits for an attempt to connect.
    pub(super) fn fail_waiting(&self, target: &Target) {
        self.status.send_if_modified(|status| {
            let waiting = matches!(status, Status::Connecting);
            if waiting {
                let error = format!("no connection to Redis at {target} yet; still trying");
                *status = Status::Down(StoreError::unavailable(error));
            }
            waiting
        });
    }

    /// Whether somebody wants a connection, or did within `span`.
    pub(super) fn is_wanted(&self, span: Duration) -> bool {
        let missed = Duration::from_millis(self.missed_ms.load(Ordering::Relaxed));
        self.status.receiver_count() > 0 || self.born.elapsed().saturating_sub(missed) < span
    }

    /// Notes that somebody wanted a connection.
    pub(super) fn missed(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.missed_ms.store(now, Ordering::Relaxed);
    }
}

//! [`Node`]: one server as one runtime sees it: the status that its supervisor publishes and
//! callers rely on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use redis::{ServerError, Value};
use tokio::sync::{mpsc, watch};

use super::exchange::Exchange;
use super::pool::Pool;
use super::pulse::Pulse;
use super::resolve::Resolver;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::batching::charge::KeyCharge;
use crate::store::redis::errors;
use crate::store::redis::wire::commands::{CallError, Commands, ServerResult};
use crate::store::{Health, Verdict};

pub(crate) mod probe;
pub(crate) mod registry;

/// How well the server is. The supervisor alone changes it.
#[derive(Clone)]
pub(super) enum NodeStatus {
    /// No attempt has failed yet: calls wait.
    Connecting,
    Up(Connected),
    /// Connected to a server that does not answer in time, or answers that it does not serve.
    Slow(StoreError),
    Down(StoreError),
}

#[derive(Clone)]
pub(crate) struct Connected {
    pub(crate) exchange: Exchange,
    /// Further connections, as long as this one lasts.
    pub(crate) pool: Pool,
    /// The process of the server, once it was asked for.
    pub(crate) process: Arc<OnceLock<ProcessId>>,
}

/// Tells one process of a server from all others.
pub(crate) type ProcessId = [u8; 20];

/// What callers tell the supervisor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Report {
    /// A call got no answer within this timeout.
    Overdue(Duration),
    /// The server answered that it does not serve.
    Unready,
    /// A call wants a connection.
    Wanted,
}

pub(crate) struct Node {
    pub(super) status: watch::Sender<NodeStatus>,
    /// Of the supervisor.
    pub(crate) pulse: Pulse,
    reports: mpsc::Sender<Report>,
    born: Instant,
    /// Milliseconds after `born` of the last call that found no connection, or of the loss of one.
    missed_ms: AtomicU64,
}

impl Node {
    /// The receiver is the supervisor's; it ends with the node.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Report>) {
        let (reports, receiver) = mpsc::channel(1);
        let status = watch::Sender::new(NodeStatus::Connecting);
        let (pulse, born, missed_ms) = (Pulse::new(), Instant::now(), AtomicU64::new(0));
        (Self { status, pulse, reports, born, missed_ms }, receiver)
    }

    /// A node that can never be connected.
    pub(super) fn hopeless(error: StoreError) -> Self {
        let node = Self::new().0;
        node.status.send_replace(NodeStatus::Down(error));
        node
    }

    pub(crate) fn health(&self) -> Health {
        match &*self.status.borrow() {
            NodeStatus::Up(_) => Health::Up,
            NodeStatus::Slow(_) => Health::Slow,
            NodeStatus::Connecting | NodeStatus::Down(_) => Health::Down,
        }
    }

    /// Tells the supervisor, unless an earlier report still waits for it.
    pub(crate) fn report(&self, report: Report) {
        let _ = self.reports.try_send(report);
    }

    /// The connection. Waits for one while no attempt has failed, and for a supervisor that its
    /// runtime does not drive.
    pub(crate) async fn connected(&self) -> Result<Connected, StoreError> {
        if self.pulse.is_late() && self.health() != Health::Up {
            self.pulse.catch_up().await;
        }
        match &*self.status.borrow() {
            NodeStatus::Up(connected) => return Ok(connected.clone()),
            NodeStatus::Slow(error) => return Err(error.clone()),
            NodeStatus::Down(error) => {
                self.missed();
                return Err(error.clone());
            }
            NodeStatus::Connecting => {}
        }
        self.report(Report::Wanted);
        self.wait(|status| !matches!(status, NodeStatus::Connecting)).await
    }

    pub(super) fn exchange(&self) -> Option<Exchange> {
        match &*self.status.borrow() {
            NodeStatus::Up(connected) => Some(connected.exchange.clone()),
            _ => None,
        }
    }

    /// Waits until the server serves, or until it is known that waiting is vain.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        self.report(Report::Wanted);
        let is_final = |status: &NodeStatus| match status {
            NodeStatus::Connecting => false,
            NodeStatus::Up(_) => true,
            NodeStatus::Slow(error) | NodeStatus::Down(error) => error.kind() == StoreErrorKind::Misconfigured,
        };
        self.wait(is_final).await.map(drop)
    }

    async fn wait(&self, enough: impl Fn(&NodeStatus) -> bool) -> Result<Connected, StoreError> {
        let mut statuses = self.status.subscribe();
        match statuses.wait_for(enough).await.as_deref() {
            Ok(NodeStatus::Up(connected)) => Ok(connected.clone()),
            Ok(NodeStatus::Slow(error) | NodeStatus::Down(error)) => Err(error.clone()),
            Ok(NodeStatus::Connecting) | Err(_) => Err(StoreError::unavailable("the connection to Redis is closed")),
        }
    }

    /// Sends commands, and sends them again if they did not leave this process.
    pub(crate) async fn send(&self, commands: impl Fn() -> Commands) -> Result<Value, StoreError> {
        loop {
            let connected = self.connected().await?;
            match self.send_over(&connected, commands()).await? {
                Some(reply) => return Ok(reply),
                // The supervisor may not have published that the connection is over.
                None => self.changed(&connected.exchange).await,
            }
        }
    }

    /// Sends commands over this very connection; `None` if it is over.
    pub(crate) async fn send_over(
        &self,
        connected: &Connected,
        commands: Commands,
    ) -> Result<Option<Value>, StoreError> {
        match connected.exchange.send(commands).await {
            Ok(reply) => {
                self.note_errors(&connected.exchange, &reply);
                Ok(Some(reply))
            }
            Err(CallError::NotSent) => Ok(None),
            Err(other) => Err(self.store_error(&connected.exchange, other)),
        }
    }

    /// Charges a key, and sends the charge again if it did not leave this process.
    pub(crate) async fn charge(&self, charge: &KeyCharge<'_>) -> ServerResult<Verdict> {
        loop {
            let exchange = match self.exchange() {
                Some(exchange) => exchange,
                None => self.connected().await?.exchange,
            };
            match exchange.charge(charge).await {
                Ok(verdict) => return Ok(Ok(verdict)),
                Err(CallError::NotSent) => self.changed(&exchange).await,
                Err(CallError::Server(error)) => {
                    self.note_error(&exchange, &error);
                    return Ok(Err(error));
                }
                Err(other) => return Err(self.store_error(&exchange, other)),
            }
        }
    }

    /// The error that a caller is given. Draws conclusions from it.
    pub(crate) fn store_error(&self, exchange: &Exchange, why: CallError) -> StoreError {
        if let CallError::Server(error) = &why {
            self.note_error(exchange, error);
        }
        why.into_store_error()
    }

    /// Waits until callers are not given this connection any more.
    async fn changed(&self, exchange: &Exchange) {
        let mut statuses = self.status.subscribe();
        let is_other = |status: &NodeStatus| match status {
            NodeStatus::Up(current) => !current.exchange.is_same(exchange),
            _ => true,
        };
        let _ = statuses.wait_for(is_other).await;
    }

    /// Draws conclusions from the errors in a reply.
    fn note_errors(&self, exchange: &Exchange, reply: &Value) {
        match reply {
            Value::ServerError(error) => self.note_error(exchange, error),
            Value::Array(replies) => {
                for reply in replies.iter().filter(|reply| matches!(reply, Value::ServerError(_) | Value::Array(_))) {
                    self.note_errors(exchange, reply);
                }
            }
            _ => {}
        }
    }

    fn note_error(&self, exchange: &Exchange, error: &ServerError) {
        if errors::is_replica(error) || errors::is_logged_out(error) {
            // The name may lead to another server by now, or the credentials may be others.
            exchange.close(errors::from_server(error), false);
        } else if errors::is_no_service(error) {
            // The supervisor asks for itself.
            self.report(Report::Unready);
        }
    }

    /// Ends the connection, whose replies cannot be those to what was sent.
    pub(crate) fn end(&self, error: &StoreError) {
        let exchange = match &*self.status.borrow() {
            NodeStatus::Up(connected) => connected.exchange.clone(),
            _ => return,
        };
        exchange.close(error.clone(), true);
    }

    /// Lets no call wait for an attempt to connect any more.
    pub(super) fn fail_waiting(&self, resolver: &Resolver) {
        self.status.send_if_modified(|status| {
            let waiting = matches!(status, NodeStatus::Connecting);
            if waiting {
                let error = format!("no connection to Redis at {resolver} yet; still trying");
                *status = NodeStatus::Down(StoreError::unavailable(error));
            }
            waiting
        });
    }

    /// Whether a call wants a connection, or did within `span`, or had one within that. Each call
    /// that waits is a receiver of the status.
    pub(super) fn is_wanted(&self, span: Duration) -> bool {
        let missed = Duration::from_millis(self.missed_ms.load(Ordering::Relaxed));
        self.status.receiver_count() > 0 || self.born.elapsed().saturating_sub(missed) < span
    }

    /// Notes that a call wanted a connection, or that one was lost.
    pub(super) fn missed(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.missed_ms.store(now, Ordering::Relaxed);
    }
}

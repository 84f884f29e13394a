//! The supervisor of a [`Node`]: a task on the runtime whose calls use the connection. It connects,
//! [serves](serving), and connects again. It alone says how well the server is.
//!
//! It ends with its runtime or its store, or when it has been failing for a minute and no call asks
//! any more; however it ends, it takes its node along, and the next call starts another.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::attempt::connect;
use super::node::registry::NodeRegistry;
use super::node::{Node, NodeStatus, Report};
use super::pulse::BEAT;
use super::queue::Sharing;
use super::resolve::Resolver;
use crate::error::StoreError;
use crate::store::redis::backoff::{Backoff, random_part};
use crate::{observe, real_time};

mod eviction;
mod health_check;
mod info;
mod renewal;
mod role;
mod serving;

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasts this long was good: what ended it may be over already.
const STABLE_AFTER: Duration = Duration::from_millis(100);
/// How long it goes on trying when no call asks.
const UNWANTED: Duration = Duration::from_secs(60);

/// Starts the supervisor of a new node.
pub(super) fn start(
    runtime: &Handle,
    resolver: Resolver,
    sharing: Sharing,
    registry: &Arc<NodeRegistry>,
    node: &Arc<Node>,
    reports: mpsc::Receiver<Report>,
) {
    let observer = observe::Connection::new(resolver.name());
    let (registry, node) = (Arc::downgrade(registry), Arc::downgrade(node));
    let server = resolver.to_string();
    runtime.spawn(Supervisor { resolver, server, sharing, registry, node, reports, observer }.run());
}

struct Supervisor {
    resolver: Resolver,
    /// How the log names the server: the one that was found last.
    server: String,
    sharing: Sharing,
    registry: Weak<NodeRegistry>,
    node: Weak<Node>,
    reports: mpsc::Receiver<Report>,
    observer: observe::Connection,
}

/// What the end of a connection says of the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stability {
    /// It was good: the next attempt may start at once, and pauses begin with the shortest.
    Stable,
    /// There was none, or it ended at once: attempts go on with longer pauses.
    Short,
}

impl Stability {
    fn of(lasted: Duration) -> Self {
        if lasted > STABLE_AFTER { Self::Stable } else { Self::Short }
    }
}

/// The supervisor is to end: the store is gone, or no call wants a connection any more.
struct Stopped;

impl Supervisor {
    async fn run(mut self) {
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut may_reconnect_now = true;
        loop {
            let resolver = Arc::clone(&self.resolver);
            if self.note_attempt(false).is_err() {
                return;
            }
            let stability = match connect(&resolver, |is_slow| self.note_attempt(is_slow).is_ok()).await {
                Ok(session) => self.serve(session).await,
                Err(error) => self.fail(error).map(|()| Stability::Short),
            };
            let Ok(stability) = stability else { return };
            let Some(node) = self.node.upgrade() else { return };
            if stability == Stability::Stable {
                backoff.reset();
                may_reconnect_now = true;
            }
            let is_connecting = matches!(*node.status.borrow(), NodeStatus::Connecting);
            if std::mem::take(&mut may_reconnect_now) && is_connecting {
                continue;
            }
            node.fail_waiting(&self.resolver);
            self.observe(&node);
            drop(node);
            let pause = backoff.pause();
            if self.rest(pause / 2 + random_part(pause / 2)).await.is_err() {
                return;
            }
        }
    }

    /// Waits before the next attempt, unless the store is gone.
    async fn rest(&mut self, pause: Duration) -> Result<(), Stopped> {
        self.due_in(Some(pause))?;
        let gone = async { while self.reports.recv().await.is_some() {} };
        tokio::select! {
            biased;
            () = gone => Err(Stopped),
            () = real_time::sleep(pause) => Ok(()),
        }
    }

    /// Says when this task runs again without being woken by a call.
    fn due_in(&self, time: Option<Duration>) -> Result<(), Stopped> {
        self.node.upgrade().ok_or(Stopped)?.pulse.due_in(time);
        Ok(())
    }

    /// Lets callers go on with what was published.
    fn progress(&self) -> Result<(), Stopped> {
        self.node.upgrade().ok_or(Stopped)?.pulse.progress();
        Ok(())
    }

    /// Notes that an attempt is under way. If it is slow, calls do not wait for it any more. Goes
    /// on unless no call has asked for long.
    fn note_attempt(&mut self, is_slow: bool) -> Result<(), Stopped> {
        self.due_in(Some(BEAT))?;
        if !is_slow {
            return Ok(());
        }
        let error = StoreError::unavailable(format!("Redis at {} does not answer; still trying", self.resolver));
        self.fail(error)
    }

    /// Publishes that an attempt has failed. Goes on unless no call has asked for long.
    fn fail(&mut self, error: StoreError) -> Result<(), Stopped> {
        let node = self.node.upgrade().ok_or(Stopped)?;
        self.observer.failing(&self.server, &error);
        node.status.send_replace(NodeStatus::Down(error));
        node.pulse.progress();
        self.observe(&node);
        if node.is_wanted(UNWANTED) { Ok(()) } else { Err(Stopped) }
    }

    /// Tells the metrics the status that has been published.
    fn observe(&mut self, node: &Node) {
        // Told when the lock is free again: a recorder is foreign code.
        let state = match &*node.status.borrow() {
            NodeStatus::Connecting => observe::ConnectionState::Connecting,
            NodeStatus::Up(_) => observe::ConnectionState::Up,
            NodeStatus::Slow(_) => observe::ConnectionState::Slow,
            NodeStatus::Down(_) => observe::ConnectionState::Down,
        };
        self.observer.set_state(state);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            node.status.send_replace(NodeStatus::Down(StoreError::unavailable("the connection to Redis is closed")));
            node.pulse.due_in(None);
            node.pulse.progress();
        }
        if let Some(registry) = self.registry.upgrade() {
            registry.forget(&self.node);
        }
    }
}

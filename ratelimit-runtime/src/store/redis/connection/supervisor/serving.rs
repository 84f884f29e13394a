//! What a [`Supervisor`] does while there is a connection: lets calls use it, asks whether the
//! server serves, and notices its end.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::eviction;
use super::health_check::{Action, HealthCheck, Phase, Pong};
use super::renewal::{renewal_of, renewed};
use super::{Stability, Stopped, Supervisor, role};
use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::connection::abort_on_drop::AbortOnDrop;
use crate::store::redis::connection::exchange::Exchange;
use crate::store::redis::connection::exchange::state::Ended;
use crate::store::redis::connection::node::{Connected, NodeStatus, Report};
use crate::store::redis::connection::pool::Pool;
use crate::store::redis::wire::commands::{CallError, CallResult};
use crate::store::redis::wire::login::serves;
use crate::store::redis::wire::server::Session;

/// How long a connection that has been replaced may take for what is in flight.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What became of a connection.
enum Served {
    /// It was lost.
    Lost(Stability),
    /// Another one is to take its place.
    Renewed(Session),
}

enum Event {
    Ended(Ended),
    /// Another server is to be connected to.
    Moved,
    /// The server is a read-only replica.
    Demoted,
    Renewed(Session),
    Pong(CallResult),
    Tick,
    /// `None` when the node is gone.
    Report(Option<Report>),
}

impl Supervisor {
    /// Lets calls use the connection, and those that take its place before its login expires, while
    /// the server serves. Says how stable the last one was.
    pub(super) async fn serve(&mut self, mut session: Session) -> Result<Stability, Stopped> {
        loop {
            match self.serve_on(session).await? {
                Served::Lost(stability) => return Ok(stability),
                Served::Renewed(renewed) => session = renewed,
            }
        }
    }

    async fn serve_on(&mut self, session: Session) -> Result<Served, Stopped> {
        let Session { stream, server, unready, renew_after } = session;
        let start = Instant::now();
        let (exchange, task) = Exchange::start(stream, self.sharing);
        let task = AbortOnDrop::spawn(task);
        let renewal = renew_after.map(|after| tokio::spawn(renewed(Arc::clone(&self.resolver), after)));
        let _renewal = renewal.as_ref().map(|task| AbortOnDrop::new(task.abort_handle()));
        let mut renewal = pin!(renewal_of(renewal));
        let mut moved = Arc::clone(&self.resolver).moved_from(Arc::clone(&server));
        let warning = eviction::warn_if_evicting(exchange.clone(), Arc::clone(&server), self.registry.clone());
        let _warning = AbortOnDrop::spawn(warning);
        self.server = self.resolver.describe(&server);
        let pool = Pool::new(Arc::clone(&server), exchange.clone());
        let demoted = role::demoted(exchange.clone(), pool.clone(), server, self.registry.clone());
        let mut demoted = pin!(demoted);
        let connected = Connected { exchange: exchange.clone(), pool, process: Arc::default() };
        let mut check = HealthCheck::new(if unready.is_some() { Pong::Unready } else { Pong::Serves });
        self.registry.upgrade().ok_or(Stopped)?.count_connection();
        self.observer.connected(&self.server);
        self.publish(&connected, check.phase(), unready)?;
        self.progress()?;
        let (mut pong, mut tick, mut read) = (None, None, exchange.read_progress());
        let ended = loop {
            let ended = exchange.ended();
            // A tick goes on over whatever else happens: reports would put it off for ever.
            if tick.is_none() {
                let next = check.tick_in();
                self.due_in(next)?;
                tick = next.map(|tick| Box::pin(real_time::sleep(tick)));
            }
            let replaced = replaced(moved.as_mut(), demoted.as_mut(), renewal.as_mut());
            let action = match self.next(ended, replaced, &mut pong, &mut tick).await {
                Event::Moved => {
                    exchange.close(StoreError::unavailable("another Redis server is the master now"), true);
                    Action::Nothing
                }
                Event::Demoted => {
                    // The name may lead to the new master by now.
                    exchange.close(StoreError::unavailable("Redis is a read-only replica now"), true);
                    Action::Nothing
                }
                Event::Ended(ended) => break ended,
                Event::Renewed(renewed) => {
                    replace(exchange, task);
                    return Ok(Served::Renewed(renewed));
                }
                Event::Report(None) => return Err(Stopped),
                Event::Report(Some(Report::Wanted)) => Action::Nothing,
                Event::Report(Some(Report::Overdue(timeout))) => check.doubt(Some(timeout)),
                Event::Report(Some(Report::Unready)) => check.doubt(None),
                Event::Tick => {
                    tick = None;
                    let now = exchange.read_progress();
                    // Until this process has read, no time has passed.
                    if check.is_waiting() && now.reads == read.reads {
                        continue;
                    }
                    let last = std::mem::replace(&mut read, now);
                    let action = check.tick(last.last_byte_at != now.last_byte_at);
                    self.publish(&connected, check.phase(), None)?;
                    self.progress()?;
                    action
                }
                Event::Pong(answer) => {
                    (pong, tick) = (None, None);
                    // Without an answer, the connection is over; that is the next event.
                    if let Ok(reply) = answer {
                        let unready = serves(&reply).err();
                        check.pong(if unready.is_some() { Pong::Unready } else { Pong::Serves });
                        self.publish(&connected, check.phase(), unready)?;
                        self.progress()?;
                    }
                    Action::Nothing
                }
            };
            match action {
                Action::Nothing => {}
                Action::SendPing => {
                    (pong, tick) = (Some(exchange.ping()), None);
                    read = exchange.read_progress();
                }
                Action::GiveUp => exchange.close(silent(), false),
            }
        };
        drop(task);
        self.lost(ended, start.elapsed()).await.map(Served::Lost)
    }

    /// Waits for whatever happens next to a connection.
    async fn next(
        &mut self,
        ended: impl Future<Output = Ended>,
        replaced: impl Future<Output = Event>,
        pong: &mut Option<oneshot::Receiver<CallResult>>,
        tick: &mut Option<Pin<Box<impl Future<Output = ()>>>>,
    ) -> Event {
        let pong = async {
            match pong {
                Some(pong) => pong.await,
                None => std::future::pending().await,
            }
        };
        let tick = async {
            match tick {
                Some(tick) => tick.await,
                None => std::future::pending().await,
            }
        };
        // In this order: what ends the connection goes before what is reported of it.
        tokio::select! {
            biased;
            ended = ended => Event::Ended(ended),
            replaced = replaced => replaced,
            answer = pong => Event::Pong(answer.unwrap_or(Err(CallError::NotSent))),
            () = tick => Event::Tick,
            report = self.reports.recv() => Event::Report(report),
        }
    }

    /// Publishes how well the server is, if that has changed. `unready` is what it answers if it
    /// does not serve.
    fn publish(&mut self, connected: &Connected, phase: Phase, unready: Option<StoreError>) -> Result<(), Stopped> {
        let node = self.node.upgrade().ok_or(Stopped)?;
        let is_known = match (&*node.status.borrow(), phase) {
            (NodeStatus::Up(known), Phase::Up) => known.exchange.is_same(&connected.exchange),
            (NodeStatus::Slow(_), Phase::Slow) => true,
            _ => false,
        };
        if is_known {
            return Ok(());
        }
        // In this order: the queue turns calls away only while the status says that it does. A
        // limiter reads the health after an error.
        match phase {
            Phase::Up => {
                connected.exchange.set_unready(None);
                node.status.send_replace(NodeStatus::Up(connected.clone()));
                self.observer.recovered(&self.server);
            }
            Phase::Slow => {
                let error = unready.unwrap_or_else(silent);
                node.status.send_replace(NodeStatus::Slow(error.clone()));
                connected.exchange.set_unready(Some(error.clone()));
                self.observer.failing(&self.server, &error);
            }
        }
        self.observe(&node);
        Ok(())
    }

    /// Publishes that the connection is over. If no call has used it, waits until one wants
    /// another.
    async fn lost(&mut self, ended: Ended, lasted: Duration) -> Result<Stability, Stopped> {
        self.observer.lost(&self.server, lasted, &ended.error);
        let was_slow = {
            let node = self.node.upgrade().ok_or(Stopped)?;
            node.missed();
            node.pulse.due_in(None);
            let was_slow = matches!(*node.status.borrow(), NodeStatus::Slow(_));
            let reconnects = ended.reconnect_now && !was_slow;
            let status = if reconnects { NodeStatus::Connecting } else { NodeStatus::Down(ended.error.clone()) };
            node.status.send_replace(status);
            self.observe(&node);
            was_slow
        };
        if !ended.reconnect_now || was_slow {
            self.observer.failing(&self.server, &ended.error);
            return Ok(Stability::of(lasted));
        }
        if ended.was_used {
            return Ok(Stability::of(lasted));
        }
        // One that was closed before it was used, as servers do with idle ones, is made again when
        // it is wanted. That it was closed says nothing against the server.
        self.reports.recv().await.ok_or(Stopped).map(|_| Stability::Stable)
    }
}

/// Waits until another connection is to take the place of this one.
async fn replaced(
    moved: impl Future<Output = ()>,
    demoted: impl Future<Output = ()>,
    renewal: impl Future<Output = Session>,
) -> Event {
    tokio::select! {
        biased;
        () = moved => Event::Moved,
        () = demoted => Event::Demoted,
        renewed = renewal => Event::Renewed(renewed),
    }
}

/// Lets a connection that has been replaced answer what is in flight, and end.
fn replace(exchange: Exchange, task: AbortOnDrop) {
    exchange.retire();
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = exchange.ended() => {}
            () = real_time::sleep(LAST_ANSWERS) => {}
        }
        drop(task);
    });
}

fn silent() -> StoreError {
    StoreError::unavailable("Redis is connected, and does not answer in time")
}

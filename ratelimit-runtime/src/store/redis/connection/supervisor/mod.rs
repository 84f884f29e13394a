//! The supervisor of a [`Node`]: a task on the runtime whose calls use the connection. It connects, watches over the
//! connection, and connects again. It alone says how well the server is.
//!
//! It ends with its runtime or its store, or when it has been failing for a minute and nobody asks any more; however it
//! ends, it takes its node along, and the next call starts another.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use self::renewal::{renewal_of, renewed};
use self::state::{Action, Phase, Pong, State};
use super::attempt::connect;
use super::exchange::{Ended, Exchange};
use super::node::nodes::Nodes;
use super::node::{Connected, Node, Report, Status};
use super::pool::Pool;
use super::pulse::BEAT;
use super::queue::Sharing;
use super::resolve::Target;
use crate::error::StoreError;
use crate::store::redis::wire::login::serves;
use crate::store::redis::wire::question::{Answer, NoAnswer};
use crate::store::redis::wire::server::Connection;
use crate::{observe, real_time};

mod eviction;
mod renewal;
mod state;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasts this long was good: what ended it may be over already.
const GOOD: Duration = Duration::from_millis(100);
/// How long a connection in whose place there is another one may take for what is on its way.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// How long it goes on trying when nobody asks.
const UNWANTED: Duration = Duration::from_secs(60);

/// Starts the supervisor of a new node.
pub(super) fn start(
    runtime: &Handle,
    target: Target,
    sharing: Sharing,
    nodes: &Arc<Nodes>,
    node: &Arc<Node>,
    reports: mpsc::Receiver<Report>,
) {
    let seen = observe::Connection::new(target.name());
    let (nodes, node) = (Arc::downgrade(nodes), Arc::downgrade(node));
    runtime.spawn(Supervisor { target, sharing, nodes, node, reports, seen }.run());
}

struct Supervisor {
    target: Target,
    sharing: Sharing,
    nodes: Weak<Nodes>,
    node: Weak<Node>,
    reports: mpsc::Receiver<Report>,
    /// What is told of it.
    seen: observe::Connection,
}

/// The store is gone, or nobody wants to be connected any more.
struct Over;

impl Supervisor {
    async fn run(mut self) {
        let mut pause = Duration::ZERO;
        loop {
            let target = Arc::clone(&self.target);
            if self.waits(false).is_err() {
                return;
            }
            let lasted = match connect(&target, |hangs| self.waits(hangs).is_ok()).await {
                Ok(connection) => self.serve(connection).await,
                Err(error) => self.fail(error).map(|()| Duration::ZERO),
            };
            let Ok(lasted) = lasted else { return };
            if lasted > GOOD {
                pause = Duration::ZERO;
            }
            if let Some(node) = self.node.upgrade() {
                let is_hopeful = pause.is_zero() && matches!(*node.status.borrow(), Status::Connecting);
                if !is_hopeful {
                    node.fail_waiting(&self.target);
                    self.see(&node);
                    pause = pause.max(FIRST_PAUSE);
                }
            }
            if !pause.is_zero() && self.rest(jittered(pause)).await.is_err() {
                return;
            }
            pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
    }

    /// Waits before the next attempt, unless the store is gone.
    async fn rest(&mut self, pause: Duration) -> Result<(), Over> {
        self.due_in(Some(pause))?;
        let gone = async { while self.reports.recv().await.is_some() {} };
        tokio::select! {
            biased;
            () = gone => Err(Over),
            () = real_time::sleep(pause) => Ok(()),
        }
    }

    /// Says when this task runs again without being asked for anything.
    fn due_in(&self, time: Option<Duration>) -> Result<(), Over> {
        self.node.upgrade().ok_or(Over)?.pulse.due_in(time);
        Ok(())
    }

    /// Callers can go on with what was published.
    fn progress(&self) -> Result<(), Over> {
        self.node.upgrade().ok_or(Over)?.pulse.progress();
        Ok(())
    }

    /// Lets calls use the connection, and those that take its place before its login expires, while the server serves.
    /// Says for how long the connection was good.
    async fn serve(&mut self, mut connection: Connection) -> Result<Duration, Over> {
        loop {
            match self.serve_on(connection).await? {
                Served::Lost(lasted) => return Ok(lasted),
                Served::Renewed(renewed) => connection = renewed,
            }
        }
    }

    async fn serve_on(&mut self, connection: Connection) -> Result<Served, Over> {
        let Connection { stream, server, says, renew_after } = connection;
        let start = Instant::now();
        let (exchange, task) = Exchange::start(stream, self.sharing);
        let task = AbortOnDrop(tokio::spawn(task).abort_handle());
        let renewal = renew_after.map(|after| tokio::spawn(renewed(Arc::clone(&self.target), after)));
        let _renewal = renewal.as_ref().map(|task| AbortOnDrop(task.abort_handle()));
        let mut renewal = pin!(renewal_of(renewal));
        let mut moved = Arc::clone(&self.target).moved_from(Arc::clone(&server));
        let look = eviction::look(exchange.clone(), Arc::clone(&server), self.nodes.clone());
        let _look = AbortOnDrop(tokio::spawn(look).abort_handle());
        let connected = Connected { exchange: exchange.clone(), pool: Pool::new(server, exchange.clone()) };
        let mut state = State::new(if says.is_some() { Pong::Refuses } else { Pong::Serves });
        self.nodes.upgrade().ok_or(Over)?.connected();
        self.seen.connected(&self.target);
        self.publish(&connected, &state, says)?;
        self.progress()?;
        let (mut pong, mut tick, mut looked) = (None, None, exchange.look());
        let ended = loop {
            let ended = exchange.ended();
            // It goes on over whatever else happens: reports would put it off for ever.
            if tick.is_none() {
                let next = state.tick_in();
                self.due_in(next)?;
                tick = next.map(|tick| Box::pin(real_time::sleep(tick)));
            }
            let action = match self.next(ended, moved.as_mut(), renewal.as_mut(), &mut pong, &mut tick).await {
                Event::Moved => {
                    exchange.close(StoreError::unavailable("another Redis server is the master now"), true);
                    Action::Nothing
                }
                Event::Ended(ended) => break ended,
                Event::Renewed(renewed) => {
                    exchange.retire();
                    tokio::spawn(async move {
                        tokio::select! {
                            biased;
                            _ = exchange.ended() => {}
                            () = real_time::sleep(LAST_ANSWERS) => {}
                        }
                        drop(task);
                    });
                    return Ok(Served::Renewed(renewed));
                }
                Event::Report(None) => return Err(Over),
                Event::Report(Some(Report::Wanted)) => Action::Nothing,
                Event::Report(Some(Report::Overdue(timeout))) => state.doubt(Some(timeout)),
                Event::Report(Some(Report::Refused)) => state.doubt(None),
                Event::Tick => {
                    tick = None;
                    let now = exchange.look();
                    // Until this process has looked, no time has passed.
                    if state.is_waiting() && now.1 == looked.1 {
                        continue;
                    }
                    let last = std::mem::replace(&mut looked, now);
                    let action = state.tick(last.0 != now.0);
                    self.publish(&connected, &state, None)?;
                    self.progress()?;
                    action
                }
                Event::Pong(answer) => {
                    (pong, tick) = (None, None);
                    // Without an answer, the connection is over; that is the next event.
                    if let Ok(reply) = answer {
                        let says = serves(&reply).err();
                        state.pong(if says.is_some() { Pong::Refuses } else { Pong::Serves });
                        self.publish(&connected, &state, says)?;
                        self.progress()?;
                    }
                    Action::Nothing
                }
            };
            match action {
                Action::Nothing => {}
                Action::SendPing => {
                    (pong, tick) = (Some(exchange.ping()), None);
                    looked = exchange.look();
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
        moved: impl Future<Output = ()>,
        renewal: impl Future<Output = Connection>,
        pong: &mut Option<oneshot::Receiver<Answer>>,
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
        // In this order: what ends the connection goes before what is said of it.
        tokio::select! {
            biased;
            ended = ended => Event::Ended(ended),
            () = moved => Event::Moved,
            renewed = renewal => Event::Renewed(renewed),
            answer = pong => Event::Pong(answer.unwrap_or(Err(NoAnswer::NotAsked))),
            () = tick => Event::Tick,
            report = self.reports.recv() => Event::Report(report),
        }
    }

    /// Publishes the state of the server, if it has changed.
    fn publish(&mut self, connected: &Connected, state: &State, says: Option<StoreError>) -> Result<(), Over> {
        let node = self.node.upgrade().ok_or(Over)?;
        let is_known = match (&*node.status.borrow(), state.phase()) {
            (Status::Up(known), Phase::Up) => known.exchange.is_same(&connected.exchange),
            (Status::Slow(_), Phase::Slow) => true,
            _ => false,
        };
        if is_known {
            return Ok(());
        }
        match state.phase() {
            Phase::Up => {
                connected.exchange.refuse(None);
                node.status.send_replace(Status::Up(connected.clone()));
                self.seen.recovered(&self.target);
            }
            Phase::Slow => {
                let error = says.unwrap_or_else(silent);
                node.status.send_replace(Status::Slow(error.clone()));
                connected.exchange.refuse(Some(error.clone()));
                self.seen.failing(&self.target, &error);
            }
        }
        self.see(&node);
        Ok(())
    }

    /// The connection is over.
    async fn lost(&mut self, ended: Ended, lasted: Duration) -> Result<Duration, Over> {
        self.seen.lost(&self.target, lasted, &ended.error);
        let was_slow = {
            let node = self.node.upgrade().ok_or(Over)?;
            node.missed();
            node.pulse.due_in(None);
            let was_slow = matches!(*node.status.borrow(), Status::Slow(_));
            let hopeful = ended.hopeful && !was_slow;
            node.status.send_replace(if hopeful { Status::Connecting } else { Status::Down(ended.error.clone()) });
            self.see(&node);
            was_slow
        };
        if !ended.hopeful || was_slow {
            self.seen.failing(&self.target, &ended.error);
            return Ok(lasted);
        }
        // One that nobody used before it was closed, as servers do with idle ones, is made again when it is wanted.
        if ended.was_used {
            return Ok(lasted);
        }
        self.reports.recv().await.ok_or(Over).map(|_| Duration::MAX)
    }

    /// An attempt is under way; once it takes long, calls do not wait for it any more. Goes on
    /// unless no call has asked for long.
    fn waits(&mut self, hangs: bool) -> Result<(), Over> {
        self.due_in(Some(BEAT))?;
        if !hangs {
            return Ok(());
        }
        let error = StoreError::unavailable(format!("Redis at {} does not answer; still trying", self.target));
        self.fail(error)
    }

    /// An attempt has failed. Goes on unless nobody has asked for long.
    fn fail(&mut self, error: StoreError) -> Result<(), Over> {
        let node = self.node.upgrade().ok_or(Over)?;
        self.seen.failing(&self.target, &error);
        node.status.send_replace(Status::Down(error));
        node.pulse.progress();
        self.see(&node);
        if node.is_wanted(UNWANTED) { Ok(()) } else { Err(Over) }
    }

    /// The state has been published.
    fn see(&mut self, node: &Node) {
        // Told when the lock is free again: whoever records is foreign code.
        let state = match &*node.status.borrow() {
            Status::Connecting => observe::State::Connecting,
            Status::Up(_) => observe::State::Up,
            Status::Slow(_) => observe::State::Slow,
            Status::Down(_) => observe::State::Down,
        };
        self.seen.is(state);
    }
}

/// What became of a connection.
enum Served {
    /// It was good for so long.
    Lost(Duration),
    /// Another one is to take its place.
    Renewed(Connection),
}

enum Event {
    Ended(Ended),
    Moved,
    Renewed(Connection),
    Pong(Answer),
    Tick,
    Report(Option<Report>),
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            node.status.send_replace(Status::Down(StoreError::unavailable("the connection to Redis is closed")));
            node.pulse.due_in(None);
            node.pulse.progress();
        }
        if let Some(nodes) = self.nodes.upgrade() {
            nodes.forget(&self.node);
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn silent() -> StoreError {
    StoreError::unavailable("Redis is connected, and does not answer in time")
}

/// Between half and all of the pause, so that clients that lost one server do not return in step.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 1024;
    pause / 2 + pause / 2 * u32::try_from(random).unwrap_or_default() / 1024
}

//! [`Batcher`]: group commit on a link: the callers that wait for each key, and the calls in
//! flight.
//!
//! - A caller that finds the link idle takes a [`CallSlot`] and sends by itself, without a task in
//!   between. All others wait in the [`queue`], and a task sends the next [`flight`], which carries
//!   them. Both send and read by `send_all`.
//! - A flight carries half of all callers at most, and two are not written at once: while the
//!   server decides one, this process reads and writes the other.
//! - At its timeout a caller is dropped. If it is queued, it is not sent. If it has sent by itself,
//!   its slot stays taken until a PING behind its call is answered. A reply that is late makes the
//!   link doubtful.
//! - When a connection ends, all questions that were sent on it fail as lost. Queued callers wait
//!   for the next connection, or fail when the link says that the server is slow or down.

mod flight;
mod queue;
mod sending;

use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use redis::{Cmd, ServerError, Value};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use self::flight::MAX_KEYS;
use self::queue::Queue;
use self::sending::CallSlot;
use super::errors;
use super::link::{Connection, Link, LinkStatus, Published};
use super::scripts::{KeyQuestion, Reply, ScriptAnswer};
use crate::error::StoreError;
use crate::pace::{BETWEEN_CALLS, CALLERS_RETURN};

/// While fewer callers wait for replies, each sends by itself.
const FEW_CALLERS: usize = 8;
/// The same of a server that is [near](Connection::is_near). *Measured*: with 4 in place of 8, 8
/// callers made 1.0 to 1.2 times as many decisions a second, 4 as many to 1.1 times.
const FEW_CALLERS_NEAR: usize = 4;
/// Calls in flight at most.
const MAX_CALLS: usize = 64;

/// Why a question has no answer.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The server's error: it was not carried out.
    Server(ServerError),
    /// Another error, which says itself whether the question may have been carried out.
    Other(StoreError),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Server(error) => errors::from_server(&error),
            Failure::Other(error) => error,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

/// What a caller is told: a reply to each of its questions, of which there is most often one.
pub(crate) type Told = Result<SmallVec<[Reply; 1]>, Failure>;

/// A caller that waits in the queue or for a reply.
#[derive(Debug)]
struct Caller {
    answer: oneshot::Sender<Told>,
    /// When it stops waiting.
    until: Option<Instant>,
}

impl Caller {
    fn waits(&self, now: Instant) -> bool {
        !self.answer.is_closed() && self.until.is_none_or(|until| now < until)
    }

    fn tell(self, told: Told) {
        // One that gave up is not there any more.
        let _ = self.answer.send(told);
    }

    /// Tells a caller that is not sent any more that its time is over.
    fn time_out(self) {
        self.tell(Err(
            StoreError::timed_out("no answer from Redis in time").into()
        ));
    }
}

/// What a caller is told by the answers to all it has asked: the caller with this index of those
/// who ask the same.
fn told(answers: &[Result<ScriptAnswer, ServerError>], index: u16) -> Told {
    let mut replies = SmallVec::new();
    for answer in answers {
        replies.push(
            answer
                .as_ref()
                .map_err(|error| Failure::Server(error.clone()))?
                .reply(index),
        );
    }
    Ok(replies)
}

/// Group commit on one link.
pub(crate) struct Batcher {
    pub(crate) link: Arc<Link>,
    runtime: Handle,
    slot_of: fn(&[u8]) -> u16,
    state: Mutex<State>,
    wake: Arc<Notify>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// How many calls from the queue are in flight.
    in_flight: usize,
    /// How many callers wait for a reply, those that sent by themselves included.
    callers: usize,
    /// Whether the last call from the queue was of more than a few callers. What they ask shares
    /// calls, and so do those who are answered and ask again.
    is_busy: bool,
}

/// The questions of one caller, which waits for the replies.
#[must_use = "dropping it gives the questions up"]
pub(crate) enum ReplyFuture<'a> {
    /// By a future of its own, such as one that sends a call.
    Alone(Pin<Box<dyn Future<Output = Told> + Send + 'a>>),
    /// By a call of several callers, from the queue.
    Queued(oneshot::Receiver<Told>),
}

impl Future for ReplyFuture<'_> {
    type Output = Told;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Told> {
        match &mut *self {
            Self::Alone(call) => call.as_mut().poll(cx),
            // Its call is dropped only with the runtime that its task is of.
            Self::Queued(answer) => Pin::new(answer)
                .poll(cx)
                .map(|told| told.unwrap_or_else(|_| Err(sending::lost()))),
        }
    }
}

impl State {
    /// Whether the next caller sends by itself.
    fn is_for_few(&self, connection: &Connection) -> bool {
        let few = if self.is_busy {
            1
        } else {
            few_callers(connection)
        };
        self.queue.is_empty() && self.callers < few
    }

    /// Whether a call from the queue may be sent: a full one gains nothing by waiting.
    fn may_send(&self, connection: &Connection) -> bool {
        self.in_flight < connection.depth()
            || (self.queue.keys() >= MAX_KEYS && self.in_flight < MAX_CALLS)
    }
}

impl Batcher {
    /// Sends by a task on `runtime`. Keys of one slot, as `slot_of` says, may share a command.
    pub(crate) fn start(link: Arc<Link>, runtime: &Handle, slot_of: fn(&[u8]) -> u16) -> Arc<Self> {
        let (state, wake) = (Mutex::default(), Arc::new(Notify::new()));
        let batcher = Arc::new(Self {
            link,
            runtime: runtime.clone(),
            slot_of,
            state,
            wake,
        });
        runtime.spawn(run(
            Arc::downgrade(&batcher),
            Arc::clone(&batcher.wake),
            batcher.link.changes(),
        ));
        batcher
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a question about a key, or several on keys of one slot, which are charged all or none.
    /// It enters at once. Questions that are still queued at `until` are not sent, nor those of a
    /// dropped future.
    ///
    /// `asking` sends it by itself behind an `ASKING`, which lets a node answer for a slot that
    /// moves to it.
    pub(crate) fn ask<'a>(
        self: &Arc<Self>,
        stack: &'a [KeyQuestion<'a>],
        until: Option<Instant>,
        asking: bool,
    ) -> ReplyFuture<'a> {
        if !asking {
            return self.enter(stack, until);
        }
        let batcher = Arc::clone(self);
        ReplyFuture::Alone(Box::pin(async move {
            let connection = batcher.connected().await?;
            let slot = batcher.take_slot(&mut batcher.state(), None, connection, Instant::now());
            slot.send(stack, true).await
        }))
    }

    /// Sends a command by itself, behind an `ASKING` or not. Its reply repeats no number, so that
    /// of a PING behind it has to.
    pub(crate) async fn send(&self, command: &Cmd, asking: bool) -> Result<Value, Failure> {
        let connection = self.connected().await?;
        let number = connection.number().to_string();
        let commands = [command.clone(), redis::cmd("PING").arg(&number).take()];
        let replies = sending::pipe(&connection, commands, asking);
        let mut replies = connection
            .awaited(Instant::now(), self.link.timeout() / 2, replies)
            .await;
        match (replies.pop().flatten(), replies.pop().flatten()) {
            (Some(pong), Some(reply)) if repeats(&pong, &number, &reply) => {
                sending::accept(&connection, reply)
            }
            (Some(_), Some(_)) => Err(sending::foreign(&connection)),
            _ => Err(sending::lost()),
        }
    }

    async fn connected(&self) -> Result<Arc<Connection>, StoreError> {
        self.link.look().await;
        self.link.connected().await
    }

    /// Takes in a caller, which sends by itself or waits. The status is read under the lock under
    /// which queued callers are taken out to fail: a caller that enters after that sees the new
    /// status.
    fn enter<'a>(
        self: &Arc<Self>,
        stack: &'a [KeyQuestion<'a>],
        until: Option<Instant>,
    ) -> ReplyFuture<'a> {
        let mut state = self.state();
        match self.link.status() {
            LinkStatus::Up(connection) if until.is_some() && state.is_for_few(&connection) => {
                let now = Instant::now();
                if !connection.is_unread(now) {
                    return ReplyFuture::Alone(Box::pin(
                        self.take_slot(&mut state, None, connection, now)
                            .send(stack, false),
                    ));
                }
                self.wake.notify_one();
            }
            // Renewals of permits and settlements wait as long as that takes.
            LinkStatus::Slow(connection, _) if until.is_none() => {
                let slot = self.take_slot(&mut state, None, connection, Instant::now());
                return ReplyFuture::Alone(Box::pin(slot.send(stack, false)));
            }
            LinkStatus::Slow(_, why) | LinkStatus::Down(why) => {
                return ReplyFuture::Alone(Box::pin(ready(Err(why.into()))));
            }
            LinkStatus::Up(connection) if state.may_send(&connection) => {
                self.wake.notify_one();
            }
            LinkStatus::Up(_) | LinkStatus::Connecting => {}
        }
        let (answer, waits) = oneshot::channel();
        state.queue.push(stack, Caller { answer, until });
        ReplyFuture::Queued(waits)
    }

    fn take_slot(
        self: &Arc<Self>,
        state: &mut State,
        queued: Option<usize>,
        on: Arc<Connection>,
        sent: Instant,
    ) -> CallSlot {
        let (callers, is_lone) = (queued.unwrap_or(1), queued.is_none());
        state.callers += callers;
        state.in_flight += usize::from(!is_lone);
        CallSlot {
            batcher: Arc::clone(self),
            callers,
            is_lone,
            connection: on,
            sent,
            is_answered: false,
        }
    }

    /// A call of so many callers is not in flight any more.
    fn landed(&self, callers: usize, is_lone: bool) {
        let mut state = self.state();
        state.callers -= callers;
        state.in_flight -= usize::from(!is_lone);
        if !state.queue.is_empty() {
            self.wake.notify_one();
        }
    }

    /// How many callers wait in the queue, and how many for calls in flight.
    fn callers(&self) -> (usize, usize) {
        let state = self.state();
        (state.queue.callers(), state.callers)
    }

    /// Lets callers that were just answered ask again, so that they come along: until as many are
    /// queued as in flight, or no more come.
    async fn gather(&self) {
        let mut before = None;
        let more_come = || {
            let (queued, in_flight) = self.callers();
            let is_enough = in_flight > 0 && queued >= in_flight;
            before.replace(queued) != Some(queued) && !is_enough
        };
        CALLERS_RETURN.pass_while(more_come).await;
    }

    /// Sends the next call, if there is one and it may be sent.
    fn send_next(self: &Arc<Self>) -> bool {
        let mut state = self.state();
        // To ask for the status is to want a connection.
        if state.queue.is_empty() {
            return false;
        }
        let connection = match self.link.status() {
            LinkStatus::Up(connection) if state.may_send(&connection) => connection,
            LinkStatus::Up(_) | LinkStatus::Connecting => return false,
            LinkStatus::Slow(_, why) | LinkStatus::Down(why) => {
                let queue = std::mem::take(&mut state.queue);
                // Free before they are told.
                drop(state);
                queue.fail(&why);
                return false;
            }
        };
        let half = (state.queue.callers() + state.callers).div_ceil(2);
        let now = Instant::now();
        let flight = state.queue.take(half, self.slot_of, now);
        if !flight.commands.is_empty() {
            state.is_busy = flight.callers >= few_callers(&connection);
            let slot = self.take_slot(&mut state, Some(flight.callers), connection, now);
            drop(state);
            self.runtime.spawn(slot.send_queued(flight.commands));
        }
        true
    }
}

/// The batcher's task: sends what waits whenever the link's status changes or a call has room. It
/// ends with the batcher, whose link is dropped along with it.
async fn run(batcher: Weak<Batcher>, wake: Arc<Notify>, mut status: watch::Receiver<Published>) {
    loop {
        let Some(batcher) = batcher.upgrade() else {
            return;
        };
        batcher.gather().await;
        batcher.link.look().await;
        while batcher.send_next() {
            BETWEEN_CALLS.pass().await;
        }
        drop(batcher);
        // At first without waiting: the link may be up since before its changes were seen.
        tokio::select! {
            () = wake.notified() => {}
            changed = status.changed() => if changed.is_err() { return },
        }
    }
}

fn few_callers(connection: &Connection) -> usize {
    if connection.is_near() {
        FEW_CALLERS_NEAR
    } else {
        FEW_CALLERS
    }
}

/// Whether the reply to a PING is its own: that of a user who may not PING is an error, and so are
/// both of a server that does not serve.
fn repeats(pong: &Value, number: &str, reply: &Value) -> bool {
    match pong {
        Value::BulkString(echo) => echo == number.as_bytes(),
        Value::ServerError(error) => {
            errors::is_forbidden(error) || matches!(reply, Value::ServerError(_))
        }
        _ => false,
    }
}

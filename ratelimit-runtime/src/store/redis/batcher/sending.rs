//! [`Sending`]: sends what waits as soon as it may, and answers it.
//!
//! - A caller [enters](Sending::enter). Where the link is idle, the caller itself polls
//!   [`fly`](Sending::fly), which sends its question and answers it. Else the question is queued,
//!   and a task does the same with what [`send_next`](Sending::send_next) takes of the queue.
//! - A reply is handed to those who wait for it by [`Call::answer`].
//! - At its timeout a caller is dropped. If it sends by itself, a task goes on in its place; if it
//!   is queued, it is not sent. A reply that is late makes the link doubtful ([`watch`](Sending::watch)).
//! - When a connection ends, all that was sent on it fails as lost. Those who are queued wait for
//!   the next connection, or fail when the link says that the server is away.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use redis::{Cmd, Value};
use smallvec::{SmallVec, smallvec};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::flight::{Call, Calls};
use super::queue::Queue;
use super::{Caller, Failure, Told};
use crate::error::StoreError;
use crate::store::redis::errors::unexpected_reply;
use crate::store::redis::link::{BoxFuture, Connection, Link, LinkStatus, Lost};
use crate::store::redis::scripts::Question;
use crate::store::redis::scripts::call::by_source;
use crate::{observe, real_time};

pub(super) struct Sending {
    pub(super) link: Arc<Link>,
    runtime: Handle,
    slot_of: fn(&[u8]) -> u16,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    queue: Queue,
    in_flight: usize,
}

/// What may have been carried out, because its reply did not come.
pub(super) fn lost() -> Failure {
    Failure::Lost(StoreError::unavailable("the connection to Redis ended before it replied").lost())
}

/// What got a reply that cannot answer it. No other on that connection can be trusted either.
pub(super) fn foreign() -> Failure {
    Failure::Lost(unexpected_reply().lost())
}

/// A call in flight, which has been counted.
struct InFlight<'a>(&'a Sending);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_flight -= 1;
        if !state.queue.is_empty() {
            self.0.wake.notify_one();
        }
    }
}

impl Sending {
    pub(super) fn new(link: Arc<Link>, runtime: Handle, slot_of: fn(&[u8]) -> u16) -> Self {
        Self { link, runtime, slot_of, state: Mutex::default(), wake: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a caller. The status is read under the lock under which [`run`](Self::run) fails
    /// those who wait: a caller that enters behind that sees the new status.
    pub(super) fn enter(
        self: &Arc<Self>,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
    ) -> Result<Waits<'_>, Failure> {
        let mut state = self.state();
        let is_idle = state.in_flight == 0 && state.queue.is_empty();
        let depth = match self.link.status() {
            LinkStatus::Up(connection) if is_idle && !connection.is_unread() => {
                return Ok(self.send_by_caller(state, connection, stack, until, false));
            }
            LinkStatus::Up(connection) => connection.depth(),
            LinkStatus::Connecting => 0,
            // The leases of permits are renewed meanwhile, and wait as long as that takes.
            LinkStatus::Slow(connection, _) if until.is_none() => {
                return Ok(self.send_by_caller(state, connection, stack, until, false));
            }
            LinkStatus::Slow(_, why) | LinkStatus::Down(why) => return Err(Failure::NotSent(why)),
        };
        let (answer, waits) = oneshot::channel();
        state.queue.push(self.slot_of, stack, Caller { answer, until });
        if state.in_flight < depth {
            self.wake.notify_one();
        }
        Ok(Waits { sending: self, answer: waits, own: None, is_over: false })
    }

    /// A call for one caller, behind an `ASKING`.
    pub(super) fn send_asking(
        self: &Arc<Self>,
        connection: Arc<Connection>,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
    ) -> Waits<'_> {
        self.send_by_caller(self.state(), connection, stack, until, true)
    }

    /// A call for one caller, which it sends by itself.
    fn send_by_caller(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        connection: Arc<Connection>,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
        asking: bool,
    ) -> Waits<'_> {
        state.in_flight += 1;
        drop(state);
        let (answer, waits) = oneshot::channel();
        let calls = smallvec![Call::of_one(stack, Caller { answer, until })];
        let sent = Instant::now();
        let flying = Arc::clone(self).fly(Arc::clone(&connection), calls, asking);
        // One that gives up says by that when it is late: it needs no timer.
        let flying: BoxFuture<()> = match until {
            Some(_) => Box::pin(flying),
            None => Box::pin(Arc::clone(self).watch_owned(Arc::clone(&connection), sent, flying)),
        };
        Waits { sending: self, answer: waits, own: Some((flying, connection, sent)), is_over: false }
    }

    pub(super) fn fail_waiting(&self, why: &StoreError) {
        let callers = self.state().queue.drain();
        for caller in callers {
            caller.tell(Err(Failure::NotSent(why.clone())));
        }
    }

    /// The batcher's task: sends what waits whenever the link's status changes or a call has room.
    pub(super) async fn run(self: Arc<Self>) {
        let mut status = self.link.changes();
        loop {
            // Callers that were just answered ask again, and come along.
            tokio::task::yield_now().await;
            self.link.look().await;
            while self.send_next() {}
            // At first without waiting: the link may be up since before its changes were seen.
            tokio::select! {
                () = self.wake.notified() => {}
                changed = status.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Sends the next call, if there is one and it may be sent.
    fn send_next(self: &Arc<Self>) -> bool {
        let mut state = self.state();
        // To ask for the status is to want a connection.
        if state.queue.is_empty() {
            return false;
        }
        let connection = match self.link.status() {
            LinkStatus::Up(connection) => connection,
            LinkStatus::Connecting => return false,
            LinkStatus::Slow(_, why) | LinkStatus::Down(why) => {
                drop(state);
                self.fail_waiting(&why);
                return false;
            }
        };
        if state.in_flight >= connection.depth() {
            return false;
        }
        let flight = state.queue.take(Instant::now());
        if !flight.is_empty() {
            state.in_flight += 1;
            drop(state);
            let flying = Arc::clone(self).fly(Arc::clone(&connection), flight.into_calls(), false);
            self.runtime.spawn(Arc::clone(self).watch_owned(connection, Instant::now(), flying));
        }
        true
    }

    /// Sends calls and answers all who wait for them. Nothing gives them up but the end of their
    /// connection: a caller that is dropped leaves the rest to a task.
    async fn fly(self: Arc<Self>, connection: Arc<Connection>, calls: Calls, asking: bool) {
        // Given back also where a recorder of metrics panics.
        let place = InFlight(&self);
        let first = connection.numbers(calls.len());
        let numbers = || (0..).map(|call| first.wrapping_add(call));
        let numbered = || numbers().zip(&calls);
        for call in &calls {
            observe::command_sent(call.decisions());
        }
        let mut replies = match (&calls[..], asking) {
            ([call], false) => connection.send(&call.command(first)).await.map(|reply| smallvec![Some(reply)]),
            _ => send_all(&connection, numbered().map(|(number, call)| call.command(number)), asking).await,
        };
        // A server that does not know a script is sent its source, while others wait.
        if let Ok(known) = &mut replies
            && known.iter().any(|reply| is_unknown(reply.as_ref()))
        {
            let unknown = numbered().zip(&*known).filter(|(_, reply)| is_unknown(reply.as_ref()));
            let by_source = unknown.map(|((number, call), _)| by_source(&call.command(number), call.script()));
            let again = Box::pin(send_all(&connection, by_source, asking)).await;
            let mut again = again.unwrap_or_default().into_iter();
            for reply in known.iter_mut().filter(|reply| is_unknown(reply.as_ref())) {
                *reply = again.next().flatten();
            }
        }
        drop(place);
        let mut replies = replies.unwrap_or_default().into_iter();
        for (number, call) in numbers().zip(calls) {
            match replies.next().flatten() {
                None => call.fail(&lost()),
                Some(Value::ServerError(error)) => {
                    connection.note(&error);
                    call.fail(&Failure::Server(error));
                }
                Some(reply) => {
                    if !call.answer(&reply, number, |error| connection.note(error)) {
                        connection.hang_up();
                    }
                }
            }
        }
    }

    /// Waits for a reply, however long. Tells the link when it is late.
    pub(super) async fn watch<T>(&self, connection: &Connection, sent: Instant, reply: impl Future<Output = T>) -> T {
        let mut reply = pin!(reply);
        if let Ok(reply) = real_time::timeout_at(sent + self.link.timeout(), &mut reply).await {
            return reply;
        }
        connection.late(sent);
        reply.await
    }

    async fn watch_owned(
        self: Arc<Self>,
        connection: Arc<Connection>,
        sent: Instant,
        flying: impl Future<Output = ()>,
    ) {
        self.watch(&connection, sent, flying).await;
    }
}

fn is_unknown(reply: Option<&Value>) -> bool {
    matches!(reply, Some(Value::ServerError(error)) if error.code() == "NOSCRIPT")
}

/// What is replied to each call; `None` where that is lost.
type Replies = SmallVec<[Option<Value>; 1]>;

/// Sends commands, each behind an `ASKING` or not.
async fn send_all(connection: &Connection, commands: impl Iterator<Item = Cmd>, asking: bool) -> Result<Replies, Lost> {
    let mut pipeline = redis::pipe();
    for command in commands {
        if asking {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(command);
    }
    let each = 1 + usize::from(asking);
    let replies = connection.send_all(&pipeline, pipeline.len()).await?;
    Ok(replies.into_iter().skip(each - 1).step_by(each).map(Some).collect())
}

/// A caller in the queue, or on its way.
pub(super) struct Waits<'a> {
    sending: &'a Arc<Sending>,
    answer: oneshot::Receiver<Told>,
    /// The call that it sends by itself, on which connection, and when it was sent.
    own: Option<(BoxFuture<()>, Arc<Connection>, Instant)>,
    is_over: bool,
}

impl Future for Waits<'_> {
    type Output = Told;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Told> {
        if let Some((flying, ..)) = &mut self.own {
            ready!(flying.as_mut().poll(cx));
            self.own = None;
        }
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        self.is_over = true;
        // Its call was dropped, with the runtime.
        Poll::Ready(answer.unwrap_or_else(|_| Err(lost())))
    }
}

impl Drop for Waits<'_> {
    /// A caller that gives up is not asked for if it still waits. What it has sent stays in flight
    /// until the reply came: a task waits for that in its place, and tells the link when it is late.
    fn drop(&mut self) {
        if let Some((flying, connection, sent)) = self.own.take() {
            self.sending.runtime.spawn(Arc::clone(self.sending).watch_owned(connection, sent, flying));
        } else if !self.is_over {
            self.answer.close();
            self.sending.state().queue.cancel();
        }
    }
}

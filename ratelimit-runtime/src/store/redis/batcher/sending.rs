//! [`Sending`]: sends what waits as soon as it may, and answers it.
//!
//! - A caller that finds the link idle [takes](Sending::enter) a place in flight and sends by
//!   itself. Else its question is queued, and a task sends what [`send_next`](Sending::send_next)
//!   takes of the queue. Both send and read by [`send_all`].
//! - At its timeout a caller is dropped. If it is queued, it is not sent. If it has sent by itself,
//!   its place stays taken until a PING behind its call is answered ([`InFlight`]). A reply that is
//!   late makes the link doubtful ([`watch`](Sending::watch)).
//! - When a connection ends, all that was sent on it fails as lost. Those who are queued wait for
//!   the next connection, or fail when the link says that the server is away.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use redis::{Cmd, Value};
use smallvec::{SmallVec, smallvec};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::flight::{Command, Stack};
use super::queue::Queue;
use super::{Caller, Failure, Told, told};
use crate::error::StoreError;
use crate::store::redis::errors::unexpected_reply;
use crate::store::redis::link::{Connection, Link, LinkStatus};
use crate::store::redis::scripts::Question;
use crate::store::redis::scripts::call::{Answers, Call, by_source};
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

/// What a caller does that has entered.
pub(super) enum Entered {
    Sends(InFlight),
    Waits(oneshot::Receiver<Told>),
}

/// The place in flight of what is about to be sent, or has been.
pub(super) struct InFlight {
    sending: Arc<Sending>,
    connection: Arc<Connection>,
    sent: Instant,
    is_answered: bool,
}

impl InFlight {
    /// Sends by its caller what that asks, behind an `ASKING` or not. One that gives up says by that
    /// when it is late: it needs no timer.
    pub(super) async fn send(mut self, stack: &[(&[u8], Question)], asking: bool) -> Told {
        let calls = [Call::Alone(stack)];
        let answers = send_all(&self.connection, &calls, asking).await;
        self.is_answered = true;
        answers.into_iter().next().unwrap_or_else(|| Err(lost())).and_then(|answers| told(answers, stack))
    }

    /// Sends what was queued, and answers it. Nothing gives that up but the end of the connection.
    async fn send_queued(mut self, commands: Vec<Command>) {
        let answers = {
            let calls: Vec<_> = commands.iter().map(Command::call).collect();
            self.sending.watch(&self.connection, self.sent, send_all(&self.connection, &calls, false)).await
        };
        self.is_answered = true;
        drop(self);
        commands.into_iter().zip(answers).for_each(|(command, answers)| command.tell(answers));
    }
}

impl Drop for InFlight {
    /// What has been sent, by a caller that gives up, stays in flight until its reply came. Replies
    /// are in order: a task waits for one to a PING behind it, and tells the link when that is late.
    fn drop(&mut self) {
        if self.is_answered {
            return self.sending.landed();
        }
        let (sending, connection, sent) = (Arc::clone(&self.sending), Arc::clone(&self.connection), self.sent);
        self.sending.runtime.spawn(async move {
            let _ = sending.watch(&connection, sent, connection.send(&redis::cmd("PING"))).await;
            sending.landed();
        });
    }
}

impl Sending {
    pub(super) fn new(link: Arc<Link>, runtime: Handle, slot_of: fn(&[u8]) -> u16) -> Self {
        Self { link, runtime, slot_of, state: Mutex::default(), wake: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a caller, which sends by itself or waits. The status is read under the lock under
    /// which those who wait are taken out to fail: a caller that enters behind that sees the new
    /// status.
    pub(super) fn enter(
        self: &Arc<Self>,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
    ) -> Result<Entered, Failure> {
        let mut state = self.state();
        let (now, is_idle) = (Instant::now(), state.in_flight == 0 && state.queue.is_empty());
        let status = match self.link.status() {
            LinkStatus::Up(connection) if is_idle && until.is_some() && !connection.is_unread(now) => {
                return Ok(Entered::Sends(self.take_off(&mut state, connection, now)));
            }
            LinkStatus::Slow(_, why) if until.is_some() => return Err(Failure::NotSent(why)),
            LinkStatus::Down(why) => return Err(Failure::NotSent(why)),
            status => status,
        };
        let (answer, waits) = oneshot::channel();
        let caller = Caller { answer, until };
        match status {
            // The leases of permits are renewed meanwhile, and wait as long as that takes.
            LinkStatus::Slow(connection, _) => {
                let place = self.take_off(&mut state, connection, now);
                self.runtime.spawn(place.send_queued(vec![Command::Stack(Stack::new(stack, caller))]));
            }
            LinkStatus::Up(connection) => {
                state.queue.push(self.slot_of, stack, caller);
                if state.in_flight < connection.depth() {
                    self.wake.notify_one();
                }
            }
            _ => state.queue.push(self.slot_of, stack, caller),
        }
        Ok(Entered::Waits(waits))
    }

    /// A place in flight for a call that goes alone behind an `ASKING`, counted as any other.
    pub(super) fn take_place(self: &Arc<Self>, connection: Arc<Connection>) -> InFlight {
        self.take_off(&mut self.state(), connection, Instant::now())
    }

    fn take_off(self: &Arc<Self>, state: &mut State, connection: Arc<Connection>, sent: Instant) -> InFlight {
        state.in_flight += 1;
        InFlight { sending: Arc::clone(self), connection, sent, is_answered: false }
    }

    /// A call is not in flight any more.
    fn landed(&self) {
        let mut state = self.state();
        state.in_flight -= 1;
        if !state.queue.is_empty() {
            self.wake.notify_one();
        }
    }

    pub(super) fn fail_waiting(&self, why: &StoreError) {
        Self::fail(self.state(), why);
    }

    /// Fails those who wait, and frees the lock before they are told.
    fn fail(mut state: MutexGuard<'_, State>, why: &StoreError) {
        let callers = state.queue.drain();
        drop(state);
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
                Self::fail(state, &why);
                return false;
            }
        };
        if state.in_flight >= connection.depth() {
            return false;
        }
        let now = Instant::now();
        let flight = state.queue.take(now);
        if !flight.commands.is_empty() {
            let place = self.take_off(&mut state, connection, now);
            drop(state);
            self.runtime.spawn(place.send_queued(flight.commands));
        }
        true
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
}

/// What is replied to each call; `None` where that is lost.
type Replies = SmallVec<[Option<Value>; 1]>;

/// Sends calls, each behind an `ASKING` or not, and reads what is replied to each.
async fn send_all<K: AsRef<[u8]>>(
    connection: &Connection,
    calls: &[Call<'_, K>],
    asking: bool,
) -> SmallVec<[Result<Answers, Failure>; 1]> {
    let first = connection.numbers(calls.len());
    let numbered = || calls.iter().zip((0..).map(|call| first.wrapping_add(call)));
    for call in calls {
        observe::command_sent(call.decisions());
    }
    let mut replies: Replies = match calls {
        [call] if !asking => smallvec![connection.send(&call.command(first)).await.ok()],
        _ => Box::pin(pipe(connection, numbered().map(|(call, number)| call.command(number)), asking)).await,
    };
    // A server that does not know a script is sent its source, while others wait.
    if replies.iter().flatten().any(is_unknown) {
        let unknown = numbered().zip(&replies).filter(|(_, reply)| reply.as_ref().is_some_and(is_unknown));
        let by_source = unknown.map(|((call, number), _)| by_source(&call.command(number), call.script()));
        let mut again = Box::pin(pipe(connection, by_source, asking)).await.into_iter();
        for reply in replies.iter_mut().filter(|reply| reply.as_ref().is_some_and(is_unknown)) {
            *reply = again.next().flatten();
        }
    }
    let mut replies = replies.into_iter();
    numbered().map(|(call, number)| read(connection, call, number, replies.next().flatten())).collect()
}

fn is_unknown(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

async fn pipe(connection: &Connection, commands: impl Iterator<Item = Cmd>, asking: bool) -> Replies {
    let mut pipeline = redis::pipe();
    for command in commands {
        if asking {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(command);
    }
    let each = 1 + usize::from(asking);
    let replies = connection.send_all(&pipeline).await.unwrap_or_default();
    replies.into_iter().skip(each - 1).step_by(each).map(Some).collect()
}

/// Reads what is replied to a call, and notes what that says of the server and the connection.
fn read<K: AsRef<[u8]>>(
    connection: &Connection,
    call: &Call<'_, K>,
    number: u32,
    reply: Option<Value>,
) -> Result<Answers, Failure> {
    let reply = reply.ok_or_else(lost)?;
    if let Value::ServerError(error) = reply {
        connection.note(&error);
        return Err(Failure::Server(error));
    }
    let Ok(answers) = call.read(&reply, number) else {
        connection.hang_up();
        return Err(foreign());
    };
    answers.all.iter().filter_map(|answer| answer.as_ref().err()).for_each(|error| connection.note(error));
    Ok(answers)
}

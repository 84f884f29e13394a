//! [`Inner`]: sends what waits as soon as it may, and answers it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use redis::{Cmd, ServerError, Value};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::caller::{self, Answered, Caller, Failure, Stack};
use super::flight::{Call, Flight};
use super::queue::Queue;
use crate::error::StoreError;
use crate::store::Verdict;
use crate::store::redis::errors::unexpected_reply;
use crate::store::redis::link::{Connection, Link, LinkStatus, Lost};
use crate::store::redis::scripts::call::{self, by_source};
use crate::store::redis::scripts::{Foreign, Question, Script};
use crate::{observe, real_time};

pub(super) struct Inner {
    pub(super) link: Arc<Link>,
    pub(super) runtime: Handle,
    slot_of: fn(&[u8]) -> u16,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    queue: Queue,
    in_flight: usize,
}

/// What a caller does that has entered.
pub(super) enum Entered {
    /// The link is idle: it sends by itself, and is in flight from now on.
    Alone(Arc<Connection>),
    Waits(oneshot::Receiver<Result<Answered, Failure>>),
}

/// What may have been carried out, because its reply did not come.
pub(super) fn lost() -> Failure {
    Failure::Lost(StoreError::unavailable("the connection to Redis ended before it replied").lost())
}

/// A reply that cannot answer its call: no other on that connection can be trusted either.
pub(super) fn distrust(connection: &Connection) -> Failure {
    connection.hang_up();
    Failure::Lost(unexpected_reply().lost())
}

/// Whether the server does not know the script of a call.
pub(super) fn is_unknown_script(error: &ServerError) -> bool {
    error.code() == "NOSCRIPT"
}

impl Inner {
    pub(super) fn new(link: Arc<Link>, runtime: Handle, slot_of: fn(&[u8]) -> u16) -> Self {
        Self { link, runtime, slot_of, state: Mutex::default(), wake: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a caller. The status is read under the lock under which [`run`](Self::run) fails
    /// those who wait: a caller that enters behind that sees the new status.
    pub(super) fn enter(&self, key: &[u8], question: &Question, until: Option<Instant>) -> Result<Entered, Failure> {
        let mut state = self.state();
        let depth = match self.link.status() {
            LinkStatus::Away(why) => return Err(Failure::NotSent(why)),
            LinkStatus::Connecting => 0,
            LinkStatus::Up(connection) if state.in_flight == 0 && state.queue.is_empty() && !connection.is_unread() => {
                state.in_flight = 1;
                return Ok(Entered::Alone(connection));
            }
            LinkStatus::Up(connection) => connection.depth(),
        };
        let (answer, waits) = oneshot::channel();
        state.queue.push((self.slot_of)(key), key, question, Caller { answer, until });
        self.wake_if(state.in_flight < depth);
        Ok(Entered::Waits(waits))
    }

    pub(super) fn enter_stack(
        &self,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
    ) -> Result<oneshot::Receiver<Result<Vec<Verdict>, Failure>>, Failure> {
        let mut state = self.state();
        let depth = match self.link.status() {
            LinkStatus::Away(why) => return Err(Failure::NotSent(why)),
            LinkStatus::Connecting => 0,
            LinkStatus::Up(connection) => connection.depth(),
        };
        let (answer, waits) = oneshot::channel();
        let questions = caller::owned(stack);
        state.queue.push_stack(Stack { questions, caller: Caller { answer, until } });
        self.wake_if(state.in_flight < depth);
        Ok(waits)
    }

    fn wake_if(&self, may_send: bool) {
        if may_send {
            self.wake.notify_one();
        }
    }

    /// A call has been answered, or is lost.
    pub(super) fn landed(&self) {
        let mut state = self.state();
        state.in_flight -= 1;
        self.wake_if(!state.queue.is_empty());
    }

    pub(super) fn fail_waiting(&self, why: &StoreError) {
        let (callers, stacks) = self.state().queue.drain();
        for caller in callers {
            let _ = caller.answer.send(Err(Failure::NotSent(why.clone())));
        }
        for caller in stacks {
            let _ = caller.answer.send(Err(Failure::NotSent(why.clone())));
        }
    }

    /// The batcher's task: sends what waits whenever the link's status changes or a call has room.
    pub(super) async fn run(self: Arc<Self>) {
        let mut status = self.link.changes();
        loop {
            tokio::select! {
                () = self.wake.notified() => {}
                changed = status.changed() => if changed.is_err() { return },
            }
            // Callers that were just answered ask again, and come along.
            tokio::task::yield_now().await;
            self.link.look().await;
            while self.send_next() {}
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
            LinkStatus::Away(why) => {
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
            self.runtime.spawn(Arc::clone(self).fly(connection, flight));
        }
        true
    }

    /// Sends a call and answers all who wait for it. Nothing gives it up but the end of its
    /// connection.
    async fn fly(self: Arc<Self>, connection: Arc<Connection>, flight: Flight) {
        let mut calls = flight.into_calls();
        // A server that does not know a script is sent its source.
        for has_source in [false, true] {
            let (replies, numbered) = self.send_calls(&connection, calls, has_source).await;
            if !has_source {
                self.landed();
            }
            let Ok(replies) = replies else {
                for (_, call) in numbered {
                    call.fail(&lost());
                }
                return;
            };
            calls = Vec::new();
            for (reply, (number, call)) in replies.into_iter().zip(numbered) {
                match reply {
                    Value::ServerError(error) if is_unknown_script(&error) && !has_source => calls.push(call),
                    Value::ServerError(error) => {
                        self.link.note(&connection, &error);
                        call.fail(&Failure::Server(error));
                    }
                    reply => {
                        if let Err(call) = call.answer(&reply, number, &mut |error| self.link.note(&connection, error))
                        {
                            call.fail(&distrust(&connection));
                        }
                    }
                }
            }
            if calls.is_empty() {
                return;
            }
        }
    }

    async fn send_calls(
        &self,
        connection: &Connection,
        calls: Vec<Box<dyn Call>>,
        has_source: bool,
    ) -> (Result<Vec<Value>, Lost>, Vec<(u32, Box<dyn Call>)>) {
        let numbered: Vec<(u32, Box<dyn Call>)> = calls.into_iter().map(|call| (connection.number(), call)).collect();
        for (_, call) in &numbered {
            observe::command_sent(call.decisions());
        }
        let command = |number: u32, call: &dyn Call| {
            let command = call.command(number);
            if has_source { by_source(&command, call.script()) } else { command }
        };
        let replies = if let [(number, call)] = numbered.as_slice() {
            let command = command(*number, &**call);
            self.watched(connection, connection.send(&command)).await.map(|reply| vec![reply])
        } else {
            let mut pipeline = redis::pipe();
            for (number, call) in &numbered {
                pipeline.add_command(command(*number, &**call));
            }
            self.watched(connection, connection.send_all(&pipeline, numbered.len())).await
        };
        (replies, numbered)
    }

    /// Waits for a reply, however long. Tells the link when it is late.
    pub(super) async fn watched<T>(&self, connection: &Connection, reply: impl Future<Output = T>) -> T {
        self.watched_since(Instant::now(), connection, reply).await
    }

    /// The same for a command that was sent at this moment.
    pub(super) async fn watched_since<T>(
        &self,
        sent: Instant,
        connection: &Connection,
        reply: impl Future<Output = T>,
    ) -> T {
        let mut reply = pin!(reply);
        if let Ok(reply) = real_time::timeout_at(sent + self.link.timeout(), &mut reply).await {
            return reply;
        }
        self.link.late(connection, sent);
        reply.await
    }

    /// Sends a command behind an `ASKING`. A node that does not know the script is given it.
    pub(super) async fn send_asking(
        &self,
        connection: &Connection,
        command: &Cmd,
        script: &'static Script,
        decisions: usize,
    ) -> Result<Value, Failure> {
        let send = async |command: Cmd| {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ASKING").add_command(command);
            observe::command_sent(decisions);
            let replies = self.watched(connection, connection.send_all(&pipeline, 2)).await;
            replies.map_err(|Lost| lost())?.pop().ok_or_else(lost)
        };
        match send(command.clone()).await? {
            Value::ServerError(error) if is_unknown_script(&error) => send(by_source(command, script)).await,
            reply => Ok(reply),
        }
    }

    /// What a lone reply says.
    pub(super) fn read_lone(
        &self,
        connection: &Connection,
        reply: Value,
        number: u32,
        question: &Question,
    ) -> Result<Answered, Failure> {
        if let Value::ServerError(error) = reply {
            self.link.note(connection, &error);
            return Err(Failure::Server(error));
        }
        match call::read_lone(&reply, number, question) {
            Ok((now, answer)) => Ok(Answered { index: 0, now, answer }),
            Err(Foreign) => Err(distrust(connection)),
        }
    }
}

/// A caller in the queue, or on its way.
pub(super) struct Waits<'a, T> {
    inner: &'a Inner,
    answer: oneshot::Receiver<Result<T, Failure>>,
    is_answered: bool,
}

impl<'a, T> Waits<'a, T> {
    pub(super) fn new(inner: &'a Inner, answer: oneshot::Receiver<Result<T, Failure>>) -> Self {
        Self { inner, answer, is_answered: false }
    }
}

impl<T> Future for Waits<'_, T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        self.is_answered = true;
        // Its call was dropped, with the runtime.
        Poll::Ready(answer.unwrap_or_else(|_| Err(lost())))
    }
}

impl<T> Drop for Waits<'_, T> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer.close();
            self.inner.state().queue.cancel();
        }
    }
}

//! [`Batcher`]: group commit on a link: the callers that wait for each key, and calls in flight.
//!
//! - A caller that finds no more than a few others in flight begins an [`OpenCall`] and sends by
//!   itself, without a task in between; how many are a few, [`traffic`] and [`trial`] say. All
//!   other callers wait in the [`queue`], and a task sends the next [`batch`], which carries them.
//!   Both send and read by `send_all`.
//! - A batch carries at most half of all callers, and no two are written at once: while the server
//!   decides one, this process reads and writes the other.
//! - At its timeout a caller is dropped. If it is queued, it is not sent. If it has sent by itself,
//!   its call stays in flight until a PING behind its call is answered; a late reply makes the link
//!   doubtful.
//! - When a connection ends, all questions that were sent on it fail as lost. Queued callers wait
//!   for the next connection, or fail when the link finds the server slow or down.

mod batch;
mod caller;
mod queue;
mod sending;
mod traffic;
mod trial;

use std::sync::{Arc, Weak};
use std::time::Instant;

use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use self::caller::{Caller, Departure, Replies};
use self::sending::OpenCall;
use self::traffic::Traffic;
use super::errors;
use super::link::{Link, LinkStatus, Lost, Published};
use super::scripts::KeyQuestion;
use crate::pace::{CALLERS_RETURN, READY_TASKS_RUN};

pub(crate) use self::caller::Failure;

/// Group commit on one link.
pub(crate) struct Batcher {
    traffic: Arc<Traffic>,
    slot_of: fn(&[u8]) -> u16,
}

/// The way in which a caller's questions are sent.
enum Accepted {
    /// By the caller itself.
    Alone(OpenCall),
    /// From the queue, in a call for several callers.
    Queued(oneshot::Receiver<Replies>),
}

impl Batcher {
    /// Starts a batcher, which sends by a task on `runtime`. Keys of one slot may share a command.
    pub(crate) fn start(link: Arc<Link>, runtime: &Handle, slot_of: fn(&[u8]) -> u16) -> Arc<Self> {
        let traffic = Arc::new(Traffic::new(link, runtime.clone()));
        let (wake, changes) = (Arc::clone(&traffic.wake), traffic.link.changes());
        let batcher = Arc::new(Self { traffic, slot_of });
        // It holds no link, which ends with the batcher.
        runtime.spawn(run(Arc::downgrade(&batcher), wake, changes));
        batcher
    }

    pub(crate) fn link(&self) -> &Link {
        &self.traffic.link
    }

    /// Asks a question about a key, or several on keys of one slot, which are charged all or none.
    /// They are not sent if they are still queued at `until`, or if the future is dropped.
    ///
    /// `asking` sends them by themselves, behind an `ASKING`, which lets a node answer for a slot
    /// that moves to it.
    pub(crate) async fn ask(
        &self,
        stack: &[KeyQuestion<'_>],
        until: Option<Instant>,
        asking: bool,
    ) -> Replies {
        let call = if asking {
            let connection = self.link().connected().await?;
            let mut state = self.traffic.state();
            OpenCall::begin(&self.traffic, &mut state, None, connection, Instant::now())
        } else {
            match self.accept(stack, until)? {
                Accepted::Alone(call) => call,
                Accepted::Queued(answer) => return answer.await.map_err(|_| Lost)?,
            }
        };
        // Large, and most callers are queued where many are.
        Box::pin(call.send(stack, asking)).await
    }

    /// Sends commands by themselves, each behind an `ASKING` or not, and returns the reply to the
    /// last. Their replies carry no number: a PING with the connection's number goes behind them,
    /// and if its reply has another, the replies are those to other commands.
    ///
    /// # Errors
    ///
    /// The error of the first command that fails.
    pub(crate) async fn send(&self, commands: &[Cmd], asking: bool) -> Result<Value, Failure> {
        let connection = self.link().connected().await?;
        let number = connection.number().to_string();
        let ping = redis::cmd("PING").arg(&number).take();
        let commands = commands.iter().cloned().chain([ping]);
        let replies = connection.send_all(commands, asking);
        let mut replies = connection
            .awaited(Instant::now(), self.link().timeout() / 2, replies)
            .await?;
        let echo = replies.pop().ok_or(Lost)?;
        let reply = match errors::first(&replies) {
            Some(error) => Value::ServerError(error.clone()),
            None => replies.pop().ok_or(Lost)?,
        };
        let is_queued = matches!(&echo, Value::SimpleString(text) if text == "QUEUED");
        if is_queued {
            // The server has no EXEC, and reads all that follows as part of the transaction.
            let _ = connection
                .send(&redis::cmd("DISCARD"), Instant::now())
                .await;
        }
        if is_queued || repeats(&echo, &number, &reply) {
            sending::accept(&connection, reply)
        } else {
            Err(sending::foreign(&connection))
        }
    }

    /// Accepts a caller, which sends by itself or waits. One lock guards reading the status and
    /// failing queued callers, so that no caller is queued after they failed.
    fn accept(
        &self,
        stack: &[KeyQuestion<'_>],
        until: Option<Instant>,
    ) -> Result<Accepted, Failure> {
        let traffic = &self.traffic;
        // The next connection may lead to another server.
        let is_bound = stack.iter().any(|(_, question)| question.gives_back());
        let mut on = None;
        let mut state = traffic.state();
        match traffic.link.status() {
            LinkStatus::Up(connection) if until.is_some() && state.is_for_few(&connection) => {
                let now = Instant::now();
                if !connection.is_unread(now) {
                    state.count(&connection);
                    let call = OpenCall::begin(traffic, &mut state, None, connection, now);
                    return Ok(Accepted::Alone(call));
                }
                traffic.wake.notify_one();
            }
            // Renewals of permits and settlements wait as long as that takes.
            LinkStatus::Slow(connection, _) if until.is_none() => {
                let call = OpenCall::begin(traffic, &mut state, None, connection, Instant::now());
                return Ok(Accepted::Alone(call));
            }
            LinkStatus::Slow(_, why) | LinkStatus::Down(why) => return Err(why.into()),
            LinkStatus::Up(connection) => {
                state.count(&connection);
                on = is_bound.then_some(connection.began);
                if state.may_send(&connection) {
                    traffic.wake.notify_one();
                }
            }
            LinkStatus::Connecting if is_bound => return Err(Lost.into()),
            LinkStatus::Connecting => {}
        }
        let (answer, waits) = oneshot::channel();
        state.queue.push(stack, Caller { answer, until, on });
        Ok(Accepted::Queued(waits))
    }

    /// Waits for callers that were just answered to ask again, so that the next batch carries
    /// them: until as many are queued as in flight, or no more arrive.
    async fn gather(&self) {
        let mut before = None;
        let more_come = || {
            let (queued, in_flight) = self.traffic.callers();
            let is_enough = in_flight > 0 && queued >= in_flight;
            before.replace(queued) != Some(queued) && !is_enough
        };
        CALLERS_RETURN.pass_while(more_come).await;
    }

    /// Sends the next batch; `false` if none may be sent.
    fn send_next(&self) -> bool {
        let traffic = &self.traffic;
        let mut state = traffic.state();
        // To ask for the status is to want a connection.
        if state.queue.is_empty() {
            return false;
        }
        let connection = match traffic.link.status() {
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
        let share = state.share();
        let now = Instant::now();
        let at = Departure {
            now,
            began: connection.began,
        };
        let batch = state.queue.take(share, self.slot_of, at);
        if !batch.calls.is_empty() {
            let call = OpenCall::begin(traffic, &mut state, Some(batch.callers), connection, now);
            drop(state);
            traffic.runtime.spawn(call.send_queued(batch.calls));
        }
        true
    }
}

/// The batcher's task: sends queued callers whenever the link's status changes or a call has room.
/// It ends with the batcher, whose link is dropped with it.
async fn run(batcher: Weak<Batcher>, wake: Arc<Notify>, mut status: watch::Receiver<Published>) {
    loop {
        let Some(batcher) = batcher.upgrade() else {
            return;
        };
        batcher.gather().await;
        batcher.link().look().await;
        while batcher.send_next() {
            READY_TASKS_RUN.pass().await;
        }
        drop(batcher);
        // At first without waiting: the link may be up since before its changes were seen.
        tokio::select! {
            () = wake.notified() => {}
            changed = status.changed() => if changed.is_err() { return },
        }
    }
}

/// `true` if the reply to a PING repeats its `number`. A user without the right to PING gets an
/// error, and a server that does not serve answers both with errors.
fn repeats(pong: &Value, number: &str, reply: &Value) -> bool {
    match pong {
        Value::ServerError(error) => {
            errors::is_forbidden(error) || matches!(reply, Value::ServerError(_))
        }
        echo => *echo == Value::BulkString(number.into()),
    }
}

//! [`OpenCall`]: sends a call and reads its reply.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use redis::Value;
use smallvec::{SmallVec, smallvec};

use super::batch::BatchedCall;
use super::caller::{Failure, Replies, replies_at};
use super::traffic::{State, Traffic};
use crate::observe;
use crate::store::redis::errors::unexpected_reply;
use crate::store::redis::link::{Connection, Lost};
use crate::store::redis::scripts::KeyQuestion;
use crate::store::redis::scripts::call::{Answers, ScriptCall};

/// The failure of a command whose reply cannot be an answer to it. Ends the connection: no other
/// reply on it can be trusted either.
pub(super) fn foreign(connection: &Connection) -> Failure {
    connection.hang_up();
    Failure::Other(unexpected_reply().lost())
}

/// A call in flight, which is about to be sent or was sent.
pub(super) struct OpenCall {
    traffic: Arc<Traffic>,
    /// The number of callers from the queue; `None` if a caller sends by itself.
    queued: Option<usize>,
    connection: Arc<Connection>,
    sent: Instant,
    is_answered: bool,
}

impl OpenCall {
    /// Begins a call for `queued` callers from the queue, or for a caller that sends by itself.
    pub(super) fn begin(
        traffic: &Arc<Traffic>,
        state: &mut State,
        queued: Option<usize>,
        on: Arc<Connection>,
        sent: Instant,
    ) -> Self {
        state.callers += queued.unwrap_or(1);
        state.in_flight += usize::from(queued.is_some());
        state.is_sending |= queued.is_some();
        Self {
            traffic: Arc::clone(traffic),
            queued,
            connection: on,
            sent,
            is_answered: false,
        }
    }

    /// Sends the questions of one caller, behind an `ASKING` or not. It needs no timer: a caller
    /// gives up at its timeout.
    pub(super) async fn send(mut self, stack: &[KeyQuestion<'_>], asking: bool) -> Replies {
        let calls = [ScriptCall::of_one(self.connection.number(), stack)];
        let replies = send_all(&self.connection, &calls, self.sent, asking).await;
        self.is_answered = true;
        let ([call], reply) = (&calls, replies?.pop().ok_or(Lost)?);
        replies_at(&read(&self.connection, call, reply)?, 0)
    }

    /// Sends queued questions, and answers the callers. Only the end of the connection stops it:
    /// then all are dropped.
    pub(super) async fn send_queued(mut self, batch: Vec<BatchedCall>) {
        let answers = {
            let calls: Vec<_> = batch
                .iter()
                .map(|call| call.script_call(self.connection.number()))
                .collect();
            let replies = send_all(&self.connection, &calls, self.sent, false);
            let time = self.traffic.link.timeout();
            let mut replies = pin!(self.connection.awaited(self.sent, time, replies));
            // The first poll sends.
            let first = poll_fn(|cx| Poll::Ready(replies.as_mut().poll(cx))).await;
            self.traffic.sent();
            let replies = match first {
                Poll::Ready(replies) => replies,
                Poll::Pending => replies.await,
            };
            let answers = calls.iter().zip(replies.into_iter().flatten());
            answers
                .map(|(call, reply)| read(&self.connection, call, reply))
                .collect::<Vec<_>>()
        };
        self.is_answered = true;
        drop(self);
        batch
            .into_iter()
            .zip(answers)
            .for_each(|(call, answers)| call.tell(answers));
    }
}

impl Drop for OpenCall {
    /// Keeps the call of a caller that gave up in flight until its reply has arrived. A task waits
    /// for the reply to a PING sent after the call, and tells the link if that is late.
    fn drop(&mut self) {
        if self.is_answered {
            return self.traffic.answered(self.queued);
        }
        let (traffic, connection) = (Arc::clone(&self.traffic), Arc::clone(&self.connection));
        let (queued, sent) = (self.queued, self.sent);
        self.traffic.runtime.spawn(async move {
            let ping = redis::cmd("PING");
            let reply = connection.send(&ping, Instant::now());
            let _ = connection
                .awaited(sent, traffic.link.timeout(), reply)
                .await;
            traffic.answered(queued);
        });
    }
}

/// Sends calls, each behind an `ASKING` or not, and returns a reply to each.
async fn send_all(
    connection: &Connection,
    calls: &[ScriptCall<'_>],
    sent: Instant,
    asking: bool,
) -> Result<SmallVec<[Value; 1]>, Lost> {
    for call in calls {
        observe::command_sent(
            call.questions
                .iter()
                .map(|question| usize::from(question.callers))
                .sum(),
        );
    }
    let mut replies: SmallVec<[Value; 1]> = match calls {
        [call] if !asking => smallvec![connection.send(&call.command(false), sent).await?],
        _ => {
            let commands = calls.iter().map(|call| call.command(false));
            Box::pin(connection.send_all(commands, asking))
                .await?
                .into()
        }
    };
    // A server that does not know a script is sent its source, while others wait.
    if replies.iter().any(is_unknown) {
        let unknown = calls
            .iter()
            .zip(&replies)
            .filter(|(_, reply)| is_unknown(reply));
        let by_source = unknown.map(|(call, _)| call.command(true));
        let again = Box::pin(connection.send_all(by_source, asking)).await?;
        let unknown = replies.iter_mut().filter(|reply| is_unknown(reply));
        unknown.zip(again).for_each(|(reply, again)| *reply = again);
    }
    Ok(replies)
}

/// Reads the reply to a call, and reports errors that concern the server to the link.
fn read(connection: &Connection, call: &ScriptCall<'_>, reply: Value) -> Result<Answers, Failure> {
    let reply = accept(connection, reply)?;
    let answers = call.read(&reply).ok_or_else(|| foreign(connection))?;
    answers
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .for_each(|error| connection.note(error));
    Ok(answers)
}

fn is_unknown(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// The reply, unless it is an error, which is reported to the link if it concerns the server.
pub(super) fn accept(connection: &Connection, reply: Value) -> Result<Value, Failure> {
    let Value::ServerError(error) = reply else {
        return Ok(reply);
    };
    connection.note(&error);
    Err(Failure::Server(error))
}

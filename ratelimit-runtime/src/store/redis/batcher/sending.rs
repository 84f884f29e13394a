//! [`CallSlot`]: sends a call and reads its reply.

use std::sync::Arc;
use std::time::Instant;

use redis::{Cmd, Value};
use smallvec::{SmallVec, smallvec};

use super::flight::Command;
use super::{Batcher, Failure, Told, told};
use crate::error::StoreError;
use crate::observe;
use crate::store::redis::errors::unexpected_reply;
use crate::store::redis::link::Connection;
use crate::store::redis::scripts::Question;
use crate::store::redis::scripts::call::{Answers, Call, by_source};

/// What may have been carried out, because its reply did not come.
pub(super) fn lost() -> Failure {
    Failure::Other(StoreError::unavailable("the connection to Redis ended before it replied").lost())
}

/// What got a reply that cannot answer it. No other on that connection can be trusted either.
pub(super) fn foreign() -> Failure {
    Failure::Other(unexpected_reply().lost())
}

/// One of the calls that may be in flight: about to be sent, or sent.
pub(super) struct CallSlot {
    pub(super) batcher: Arc<Batcher>,
    pub(super) connection: Arc<Connection>,
    pub(super) sent: Instant,
    pub(super) is_answered: bool,
}

impl CallSlot {
    /// Sends by its caller what that asks, behind an `ASKING` or not. One that gives up says by that
    /// when it is late: it needs no timer.
    pub(super) async fn send(mut self, stack: &[(&[u8], Question)], asking: bool) -> Told {
        let calls = [Call::Alone(stack)];
        let answers = send_all(&self.connection, &calls, self.sent, asking).await;
        self.is_answered = true;
        answers.into_iter().next().unwrap_or_else(|| Err(lost())).and_then(|answers| told(answers, stack))
    }

    /// Sends what was queued, and answers it. Nothing gives that up but the end of the connection.
    pub(super) async fn send_queued(mut self, commands: Vec<Command>) {
        let answers = {
            let calls: Vec<_> = commands.iter().map(Command::call).collect();
            let answers = send_all(&self.connection, &calls, self.sent, false);
            self.batcher.watch(&self.connection, self.sent, answers).await
        };
        self.is_answered = true;
        drop(self);
        commands.into_iter().zip(answers).for_each(|(command, answers)| command.tell(answers));
    }
}

impl Drop for CallSlot {
    /// What has been sent, by a caller that gives up, stays in flight until its reply came. Replies
    /// are in order: a task waits for one to a PING behind it, and tells the link when that is late.
    fn drop(&mut self) {
        if self.is_answered {
            return self.batcher.landed();
        }
        let (batcher, connection, sent) = (Arc::clone(&self.batcher), Arc::clone(&self.connection), self.sent);
        self.batcher.runtime.spawn(async move {
            let ping = redis::cmd("PING");
            let _ = batcher.watch(&connection, sent, connection.send(&ping, Instant::now())).await;
            batcher.landed();
        });
    }
}

/// What is replied to each call; `None` where that is lost.
type Replies = SmallVec<[Option<Value>; 1]>;

/// Sends calls, each behind an `ASKING` or not, and reads what is replied to each.
async fn send_all<K: AsRef<[u8]>>(
    connection: &Connection,
    calls: &[Call<'_, K>],
    sent: Instant,
    asking: bool,
) -> SmallVec<[Result<Answers, Failure>; 1]> {
    let first = connection.numbers(calls.len());
    let numbered = || calls.iter().zip((0..).map(|call| first.wrapping_add(call)));
    for call in calls {
        observe::command_sent(call.decisions());
    }
    let mut replies: Replies = match calls {
        [call] if !asking => smallvec![connection.send(&call.command(first), sent).await.ok()],
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

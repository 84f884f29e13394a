//! [`Batcher`]: group commit on a link: who waits, by key; what is in flight; who gave up.
//!
//! A caller that finds the link idle sends by itself, without a task in between ([`lone`]). All
//! others wait in the [`queue`], and the next call carries them: a [`flight`], which a task of its
//! own sends and answers ([`sending`]).

mod caller;
mod flight;
mod lone;
mod queue;
mod sending;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use self::caller::owned;
pub(crate) use self::caller::{Answered, Failure};
use self::flight::{members, verdicts};
use self::lone::Lone;
use self::sending::{Entered, Inner, Waits};
use super::errors;
use super::link::{Connection, Link, Lost};
use super::scripts::{Foreign, Question, Script, call};
use crate::error::StoreError;
use crate::store::Verdict;

/// Group commit on one link. When it is dropped, those who wait fail.
pub(crate) struct Batcher {
    inner: Arc<Inner>,
    task: AbortHandle,
}

impl Batcher {
    /// Sends by a task on `runtime`. Keys of one slot, as `slot_of` says, may share a command.
    pub(crate) fn start(link: Arc<Link>, runtime: &Handle, slot_of: fn(&[u8]) -> u16) -> Arc<Self> {
        let inner = Arc::new(Inner::new(link, runtime.clone(), slot_of));
        let task = runtime.spawn(Arc::clone(&inner).run()).abort_handle();
        Arc::new(Self { inner, task })
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.inner.link
    }

    /// Asks a question about a key, until a moment: what was not sent by then is not sent. Dropping
    /// it gives up.
    pub(crate) async fn ask(
        &self,
        key: &[u8],
        question: &Question,
        until: Option<Instant>,
    ) -> Result<Answered, Failure> {
        let entered = match self.inner.enter(key, question, until) {
            Err(away) if until.is_none() => return self.ask_slow(key, question, away).await,
            entered => entered?,
        };
        match entered {
            Entered::Alone(connection) => Lone::start(&self.inner, connection, key, question, until.is_some()).await,
            Entered::Waits(answer) => Waits::new(&self.inner, answer).await,
        }
    }

    /// Asks a server that is slow, for what waits for its answer as long as that takes: the leases
    /// of permits are renewed meanwhile.
    async fn ask_slow(&self, key: &[u8], question: &Question, away: Failure) -> Result<Answered, Failure> {
        let Some(connection) = self.inner.link.slow_connection() else { return Err(away) };
        let number = connection.number();
        let reply = connection.send(&call::lone_command(number, key, question)).await.map_err(|_| sending::lost())?;
        self.inner.read_lone(&connection, reply, number, question)
    }

    /// The same behind an `ASKING`, which lets a node answer for a slot that moves to it.
    pub(crate) async fn ask_asking(&self, key: &[u8], question: &Question) -> Result<Answered, Failure> {
        let connection = self.connected().await?;
        let number = connection.number();
        let command = call::lone_command(number, key, question);
        let reply = self.inner.send_asking(&connection, &command, question.script, 1).await?;
        self.inner.read_lone(&connection, reply, number, question)
    }

    /// Asks several questions, all or none, on keys of one slot.
    pub(crate) async fn ask_together(
        &self,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
    ) -> Result<Vec<Verdict>, Failure> {
        let answer = self.inner.enter_stack(stack, until)?;
        Waits::new(&self.inner, answer).await
    }

    /// The same behind an `ASKING`.
    pub(crate) async fn ask_together_asking(&self, stack: &[(&[u8], Question)]) -> Result<Vec<Verdict>, Failure> {
        let connection = self.connected().await?;
        let (number, questions) = (connection.number(), owned(stack));
        let command = call::stack_command(number, &members(&questions));
        match self.inner.send_asking(&connection, &command, Script::stack(), questions.len()).await? {
            Value::ServerError(error) => {
                self.inner.link.note(&connection, &error);
                Err(Failure::Server(error))
            }
            reply => match call::read_stack(&reply, number, &members(&questions)) {
                Ok(stacked) => verdicts(stacked, &questions).map_err(Failure::Server),
                Err(Foreign) => Err(sending::distrust(&connection)),
            },
        }
    }

    /// Sends a command by itself, behind an `ASKING` or not. Its reply repeats no number, so that
    /// of a PING behind it has to.
    pub(crate) async fn send(&self, command: &Cmd, asking: bool) -> Result<Value, Failure> {
        let connection = self.connected().await?;
        let number = connection.number().to_string();
        let mut pipeline = redis::pipe();
        if asking {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(command.clone()).cmd("PING").arg(&number);
        let replies = self.inner.watched(&connection, connection.send_all(&pipeline, pipeline.len())).await;
        let mut replies = replies.map_err(|Lost| sending::lost())?;
        let (pong, reply) = (replies.pop(), replies.pop());
        match (reply, pong) {
            (Some(reply), Some(pong)) if !repeats(&pong, &number, &reply) => Err(sending::distrust(&connection)),
            (Some(Value::ServerError(error)), _) => {
                self.inner.link.note(&connection, &error);
                Err(Failure::Server(error))
            }
            (Some(reply), Some(_)) => Ok(reply),
            (None, _) | (_, None) => Err(sending::lost()),
        }
    }

    async fn connected(&self) -> Result<Arc<Connection>, Failure> {
        self.inner.link.look().await;
        self.inner.link.connected().await.map_err(Failure::NotSent)
    }
}

/// Whether the reply to a PING is its own: that of a user who may not PING is an error, and so are
/// both of a server that does not serve.
fn repeats(pong: &Value, number: &str, reply: &Value) -> bool {
    match pong {
        Value::BulkString(echo) => echo == number.as_bytes(),
        Value::ServerError(error) => errors::is_forbidden(error) || matches!(reply, Value::ServerError(_)),
        _ => false,
    }
}

impl Drop for Batcher {
    fn drop(&mut self) {
        self.task.abort();
        self.inner.fail_waiting(&StoreError::unavailable("the Redis server of this key has left the cluster"));
    }
}

impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("link", &self.inner.link).finish_non_exhaustive()
    }
}

//! [`Batcher`]: group commit on a link: who waits, by key; what is in flight; who gave up.
//!
//! A caller that finds the link idle sends by itself, without a task in between. All others wait in
//! the [`queue`], and the next [`flight`] carries them. Both are sent and read in one way
//! ([`sending`]).

mod flight;
mod queue;
mod sending;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use redis::{Cmd, ServerError, Value};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use self::sending::{Entered, Sending};
use super::awaited::awaited;
use super::errors;
use super::link::{Connection, Link, Lost};
use super::scripts::Question;
use super::scripts::call::Answers;
use crate::error::StoreError;
use crate::store::Verdict;

/// Why a question has no answer.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// It was not carried out: it was not sent.
    NotSent(StoreError),
    /// The server's error: it was not carried out.
    Server(ServerError),
    /// It may have been carried out.
    Lost(StoreError),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotSent(error) | Failure::Lost(error) => error,
            Failure::Server(error) => errors::from_server(&error),
        }
    }
}

/// What each of the questions of a caller is answered: most often there is one.
pub(crate) type Verdicts = SmallVec<[Verdict; 1]>;
pub(crate) type Told = Result<Verdicts, Failure>;

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
        self.tell(Err(Failure::NotSent(StoreError::timed_out("no answer from Redis in time"))));
    }
}

/// What one caller is told of the answers to all it has asked.
fn told<K>(Answers { now, is_charged, all }: Answers, stack: &[(K, Question)]) -> Told {
    let mut verdicts = Verdicts::new();
    for (answer, (_, question)) in all.into_iter().zip(stack) {
        let verdict = answer.map_err(Failure::Server)?.verdict(0, question, now);
        // One that admits where another refuses is not charged.
        verdicts.push(if is_charged { verdict } else { Verdict { ticket: 0, ..verdict } });
    }
    Ok(verdicts)
}

/// Group commit on one link. When it is dropped, those who wait fail.
pub(crate) struct Batcher {
    sending: Arc<Sending>,
    task: AbortHandle,
}

impl Batcher {
    /// Sends by a task on `runtime`. Keys of one slot, as `slot_of` says, may share a command.
    pub(crate) fn start(link: Arc<Link>, runtime: &Handle, slot_of: fn(&[u8]) -> u16) -> Arc<Self> {
        let sending = Arc::new(Sending::new(link, runtime.clone(), slot_of));
        let task = runtime.spawn(Arc::clone(&sending).run()).abort_handle();
        Arc::new(Self { sending, task })
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.sending.link
    }

    /// Asks a question about a key, or several on keys of one slot, which are charged all or none;
    /// until a moment: what was not sent by then is not sent. Dropping it gives up.
    ///
    /// `asking` sends it by itself behind an `ASKING`, which lets a node answer for a slot that
    /// moves to it.
    pub(crate) async fn ask(&self, stack: &[(&[u8], Question)], until: Option<Instant>, asking: bool) -> Told {
        if asking {
            let connection = self.connected().await?;
            return self.sending.take_place(connection).send(stack, true).await;
        }
        match self.sending.enter(stack, until)? {
            Entered::Sends(place) => place.send(stack, false).await,
            // Its call is dropped only with the runtime that its task is of.
            Entered::Waits(answer) => answer.await.unwrap_or_else(|_| Err(sending::lost())),
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
        let replies = awaited(self.link(), &connection, connection.send_all(&pipeline));
        let mut replies = replies.await.map_err(|Lost| sending::lost())?;
        let (pong, reply) = (replies.pop(), replies.pop());
        match (reply, pong) {
            (Some(reply), Some(pong)) if !repeats(&pong, &number, &reply) => {
                connection.hang_up();
                Err(sending::foreign())
            }
            (Some(Value::ServerError(error)), _) => {
                connection.note(&error);
                Err(Failure::Server(error))
            }
            (Some(reply), Some(_)) => Ok(reply),
            (None, _) | (_, None) => Err(sending::lost()),
        }
    }

    async fn connected(&self) -> Result<Arc<Connection>, Failure> {
        self.link().look().await;
        self.link().connected().await.map_err(Failure::NotSent)
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
        self.sending.fail_waiting(&StoreError::unavailable("the Redis server of this key has left the cluster"));
    }
}

impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("link", self.link()).finish_non_exhaustive()
    }
}

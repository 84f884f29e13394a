//! [`Caller`]: a caller that waits for an answer, and the forms of the answer.

use std::time::Instant;

use redis::ServerError;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::store::redis::errors;
use crate::store::redis::link::Lost;
use crate::store::redis::scripts::{Reply, ScriptAnswer};

/// The reason why a question has no answer.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The server's error: the question was not carried out.
    Server(ServerError),
    /// Another error, which knows whether the question may have been carried out.
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

/// The failure of a command without a reply, which may have been carried out.
impl From<Lost> for Failure {
    fn from(_: Lost) -> Self {
        StoreError::unavailable("the connection to Redis ended before it replied")
            .lost()
            .into()
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error)
    }
}

/// The answer to a caller: a reply to each of its questions, most often one.
pub(crate) type Replies = Result<SmallVec<[Reply; 1]>, Failure>;

/// A caller that waits in the queue or for a reply.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) answer: oneshot::Sender<Replies>,
    /// The time at which the caller stops waiting, if ever.
    pub(super) until: Option<Instant>,
    /// The start of the only connection on which the questions may be sent; `None` for any
    /// connection.
    pub(super) on: Option<Instant>,
}

/// The time at which a batch is sent, and the start of its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) now: Instant,
    pub(super) began: Instant,
}

impl Caller {
    pub(super) fn waits(&self, Departure { now, began }: Departure) -> bool {
        !self.answer.is_closed()
            && self.until.is_none_or(|until| now < until)
            && self.on.is_none_or(|on| began == on)
    }

    pub(super) fn tell(self, replies: Replies) {
        // One that gave up is not there any more.
        let _ = self.answer.send(replies);
    }

    /// Answers a caller whose questions were not sent in time.
    pub(super) fn time_out(self) {
        self.tell(Err(
            StoreError::timed_out("no answer from Redis in time").into()
        ));
    }
}

/// The answer to a caller: the reply at its `index`, among callers that ask the same, in each of
/// these.
pub(super) fn replies_at(answers: &[Result<ScriptAnswer, ServerError>], index: u16) -> Replies {
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

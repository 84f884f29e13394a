//! [`Caller`]: who waits for an answer, what about, and what it is told: [`Answered`] or
//! [`Failure`].

use std::time::Instant;

use redis::ServerError;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::store::Verdict;
use crate::store::redis::scripts::{Question, ScriptAnswer};

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

/// What one caller is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    /// Its place among those who asked together.
    pub(crate) index: u16,
    /// When it was decided, by the store's clock.
    pub(crate) now: u64,
    pub(crate) answer: ScriptAnswer,
}

impl Answered {
    pub(crate) fn verdict(&self, question: &Question) -> Verdict {
        self.answer.verdict(self.index, question, self.now)
    }
}

/// The questions of a stack, with keys of their own.
pub(super) fn owned(stack: &[(&[u8], Question)]) -> Vec<(Box<[u8]>, Question)> {
    stack.iter().map(|(key, question)| (Box::from(*key), question.clone())).collect()
}

/// A caller that waits in the queue or for a reply.
#[derive(Debug)]
pub(super) struct Caller<T> {
    pub(super) answer: oneshot::Sender<Result<T, Failure>>,
    /// When it stops waiting.
    pub(super) until: Option<Instant>,
}

impl<T> Caller<T> {
    pub(super) fn waits(&self, now: Instant) -> bool {
        !self.answer.is_closed() && self.until.is_none_or(|until| now < until)
    }

    /// Tells a caller that is not sent any more that its time is over.
    pub(super) fn time_out(self) {
        // One that gave up is not there any more.
        let _ = self.answer.send(Err(Failure::NotSent(StoreError::timed_out("no answer from Redis in time"))));
    }
}

/// Callers of one question about one key: most often one.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) question: Question,
    pub(super) callers: Callers,
}

pub(super) type Callers = SmallVec<[Caller<Answered>; 1]>;

/// Questions that are charged all or none.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) questions: Vec<(Box<[u8]>, Question)>,
    pub(super) caller: Caller<Vec<Verdict>>,
}

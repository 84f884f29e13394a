//! What a connection is asked, which replies belong to it, and why there may be no answer.
//!
//! A question carries a [`Number`] that its reply repeats: a script puts it in front of its reply, a transaction has a
//! `PING` with it as its last command, and any other command is followed by such a `PING`. So a reply that is doubled, lost
//! or swapped with another is never taken for the one to another question.

use std::time::Instant;

use redis::{Cmd, Pipeline, ServerError, Value};

use crate::error::StoreError;
use crate::store::redis::scripts::number::Number;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// Nothing of the question reached the server: it may be asked again.
    NotAsked,
    /// It was asked, and may have been carried out.
    Lost(StoreError),
    /// It was not asked, because nobody would have waited for the answer.
    TooLate,
    /// It was not asked, because the server does not serve.
    Refused(StoreError),
    /// The server answered with an error.
    Error(ServerError),
}

pub(crate) type Answer = Result<Value, NoAnswer>;

/// What the server says, as it was read.
#[derive(Debug)]
pub(crate) enum Reply<'a> {
    Bulk(&'a [u8]),
    Other(Value),
}

impl From<Reply<'_>> for Value {
    fn from(reply: Reply<'_>) -> Self {
        match reply {
            Reply::Bulk(bytes) => Self::BulkString(bytes.to_vec()),
            Reply::Other(value) => value,
        }
    }
}

/// What one reply has to be. An error of the server may stand in its place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    Okay,
    Queued,
    /// A value like this, which the caller is given.
    Like(fn(&Value) -> bool),
    /// The reply of a script: behind the number, bytes like these, which the caller is given.
    Script(Number, fn(&Value) -> bool),
    /// The echo of a `PING`.
    Echo(Number),
    /// The reply to `EXEC`, which ends with the echo of a `PING`; the caller is given the rest. Or nil, where a watched key
    /// has changed.
    Executed(Number),
}

/// One or more commands, asked at once.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) packed: Vec<u8>,
    /// Of the commands, in order.
    pub(crate) expected: Vec<Expected>,
    pub(crate) timeout_at: Option<Instant>,
}

impl Question {
    fn new() -> Self {
        Self { packed: Vec::new(), expected: Vec::new(), timeout_at: None }
    }

    /// The call of a script, written by `call` with the number it is given.
    pub(crate) fn script(call: impl FnOnce(Number) -> Vec<u8>, is_like: fn(&Value) -> bool) -> Self {
        let number = Number::next();
        Self { packed: call(number), expected: vec![Expected::Script(number, is_like)], timeout_at: None }
    }

    /// A command whose reply is like this.
    pub(crate) fn command(command: &Cmd, is_like: fn(&Value) -> bool) -> Self {
        let mut question = Self::new();
        question.add(command, Expected::Like(is_like));
        question.ping();
        question
    }

    /// Commands that all are carried out, or none; the answer is an array of their replies, or nil if a watched key has
    /// changed.
    pub(crate) fn transaction(commands: &Pipeline) -> Self {
        let (mut question, number) = (Self::new(), Number::next());
        question.add(&redis::cmd("MULTI"), Expected::Okay);
        for command in commands.cmd_iter() {
            question.add(command, Expected::Queued);
        }
        question.add(&number.ping(), Expected::Queued);
        question.add(&redis::cmd("EXEC"), Expected::Executed(number));
        question
    }

    /// `WATCH` on these keys, and commands that read; the answer is an array of their replies. `is_asking` puts an `ASKING`
    /// before each.
    pub(crate) fn watch(keys: &[&[u8]], read: &[Cmd], is_asking: bool) -> Self {
        let mut question = Self::new();
        // The last user of the connection may have decided to write nothing.
        question.add(&redis::cmd("UNWATCH"), Expected::Okay);
        let watch = redis::cmd("WATCH").arg(keys).take();
        for command in [&watch].into_iter().chain(read) {
            if is_asking {
                question.add(&redis::cmd("ASKING"), Expected::Okay);
            }
            question.add(command, Expected::Like(|_| true));
            // Replies that look alike do not take each other's place.
            question.ping();
        }
        question
    }

    /// Nothing but a number.
    pub(crate) fn marker() -> Self {
        let mut question = Self::new();
        question.ping();
        question
    }

    /// The same behind an `ASKING`, which lets a node of a cluster answer for a slot that is moving to it.
    pub(crate) fn asking(mut self) -> Self {
        let mut packed = redis::cmd("ASKING").get_packed_command();
        packed.append(&mut self.packed);
        self.packed = packed;
        self.expected.insert(0, Expected::Okay);
        self
    }

    pub(crate) fn until(mut self, timeout_at: Option<Instant>) -> Self {
        self.timeout_at = timeout_at;
        self
    }

    fn add(&mut self, command: &Cmd, expected: Expected) {
        command.write_packed_command(&mut self.packed);
        self.expected.push(expected);
    }

    fn ping(&mut self) {
        let number = Number::next();
        self.add(&number.ping(), Expected::Echo(number));
    }
}

//! [`Commands`]: what is sent on a connection in one piece, and what each reply to it has to be.
//!
//! Each carries a [`Number`] that its reply repeats: a script puts it in front of its reply, a
//! transaction has a `PING` with it as its last command, and any other command is followed by such
//! a `PING`. So a reply that is doubled, lost or swapped with another is never taken for the reply
//! to other commands.

use std::time::Instant;

use redis::{Cmd, Pipeline, ServerError, Value};

use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::errors;
use crate::store::redis::scripts::group::Group;
use crate::store::redis::scripts::number::Number;
use crate::store::redis::scripts::protocol;

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// Nothing of it reached the server: it may be sent again.
    NotSent,
    /// It was sent, and may have been carried out.
    Lost(StoreError),
    /// It was not sent, because its answer would have come after its timeout.
    TooLate,
    /// It was not sent, because the server does not serve.
    Unready(StoreError),
    /// The server answered with an error.
    Server(ServerError),
}

impl CallError {
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::NotSent => StoreError::unavailable("the connection to Redis is closed"),
            Self::Lost(error) | Self::Unready(error) => error,
            Self::TooLate => {
                let text = "too many calls are waiting for Redis to be answered in time";
                StoreError::new(StoreErrorKind::TimedOut, text)
            }
            Self::Server(error) => errors::from_server(&error),
        }
    }
}

pub(crate) type CallResult = Result<Value, CallError>;

/// What came of asking a server. The outer error is the connection's, the inner one the server's
/// reply.
pub(crate) type ServerResult<T> = Result<Result<T, ServerError>, StoreError>;

/// A reply as it was read.
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
    /// The reply to `EXEC`, which ends with the echo of a `PING`; the caller is given the rest. Nil
    /// where a watched key has changed.
    Executed(Number),
}

/// One or more commands that are sent at once.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) packed: Vec<u8>,
    /// A reply for each command, in order.
    pub(crate) expected: Vec<Expected>,
    /// In the place of all this, a group of questions, which may share a call with others.
    pub(crate) group: Option<Group>,
    pub(crate) timeout_at: Option<Instant>,
}

impl Commands {
    fn new() -> Self {
        Self { packed: Vec::new(), expected: Vec::new(), group: None, timeout_at: None }
    }

    /// The call of a script, written by `call` with the number it is given.
    pub(crate) fn script(call: impl FnOnce(Number) -> Vec<u8>, is_like: fn(&Value) -> bool) -> Self {
        let number = Number::next();
        Self { packed: call(number), expected: vec![Expected::Script(number, is_like)], ..Self::new() }
    }

    /// A group of questions, which may share a call with others; the answer is its records.
    pub(crate) fn group(group: Group) -> Self {
        Self { group: Some(group), ..Self::new() }
    }

    /// One command, whose reply is like this.
    pub(crate) fn one(command: &Cmd, is_like: fn(&Value) -> bool) -> Self {
        let mut commands = Self::new();
        commands.add(command, Expected::Like(is_like));
        commands.ping();
        commands
    }

    /// A `MULTI … EXEC` of all of these; the answer is an array of their replies, or nil if a
    /// watched key has changed.
    pub(crate) fn transaction(pipeline: &Pipeline) -> Self {
        let (mut commands, number) = (Self::new(), Number::next());
        commands.add(&redis::cmd("MULTI"), Expected::Okay);
        for command in pipeline.cmd_iter() {
            commands.add(command, Expected::Queued);
        }
        commands.add(&number.ping(), Expected::Queued);
        commands.add(&redis::cmd("EXEC"), Expected::Executed(number));
        commands
    }

    /// `WATCH` on these keys, and commands that read; the answer is an array of their replies.
    /// `is_asking` puts an `ASKING` before each.
    pub(crate) fn watch(keys: &[&[u8]], read: &[Cmd], is_asking: bool) -> Self {
        let mut commands = Self::new();
        // The last user of the connection may have decided to write nothing.
        commands.add(&redis::cmd("UNWATCH"), Expected::Okay);
        let watch = redis::cmd("WATCH").arg(keys).take();
        for command in [&watch].into_iter().chain(read) {
            if is_asking {
                commands.add(&redis::cmd("ASKING"), Expected::Okay);
            }
            commands.add(command, Expected::Like(|_| true));
            // Replies that look alike do not take each other's place.
            commands.ping();
        }
        commands
    }

    /// A `PING` with a number.
    pub(crate) fn marker() -> Self {
        let mut commands = Self::new();
        commands.ping();
        commands
    }

    /// The same behind an `ASKING`, which lets a node of a cluster answer for a slot that is moving
    /// to it.
    pub(crate) fn asking(mut self) -> Self {
        if let Some(group) = self.group.take() {
            // `ASKING` is for the next command alone. The node may not know the script yet.
            let timeout_at = self.timeout_at;
            self = Self::script(|number| group.call(number), protocol::are_verdicts).until(timeout_at);
        }
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

//! What a connection is asked, what a reply has to look like, and why there may be no answer.

use std::time::Instant;

use redis::{ServerError, Value};

use crate::error::StoreError;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
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

pub(super) type Answer = Result<Value, NoAnswer>;

/// What the server says, as it was read.
#[derive(Debug)]
pub(super) enum Reply<'a> {
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

/// What a reply has to look like. An error of the server always may be one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    Anything,
    /// One reply that is like this.
    Like(fn(&Value) -> bool),
    /// `MULTI`, what is queued, `EXEC`.
    Transaction,
    /// The echo of a `PING`.
    Echo(u64),
    /// The same as `Like` behind the reply to `ASKING`.
    AskingLike(fn(&Value) -> bool),
    /// The same as `Transaction` behind the reply to `ASKING`.
    AskingTransaction,
}

impl Expected {
    pub(super) fn allows(self, reply: &Value, is_first: bool, is_last: bool) -> bool {
        if matches!(reply, Value::ServerError(_)) {
            return true;
        }
        match self {
            Self::Anything => true,
            Self::Transaction | Self::AskingLike(_) | Self::AskingTransaction if is_first => *reply == Value::Okay,
            Self::Like(is_like) | Self::AskingLike(is_like) => is_like(reply),
            Self::Transaction if is_last => matches!(reply, Value::Array(_) | Value::Nil),
            Self::Transaction => matches!(reply, Value::SimpleString(text) if text == "QUEUED"),
            Self::AskingTransaction => *reply == Value::Okay || Self::Transaction.allows(reply, false, is_last),
            Self::Echo(number) => matches!(reply, Value::BulkString(text) if *text == number.to_string().as_bytes()),
        }
    }
}

/// One or more commands, asked at once.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) packed: Vec<u8>,
    pub(super) replies: usize,
    pub(super) expected: Expected,
    pub(super) timeout_at: Option<Instant>,
}

impl Question {
    /// The same behind an `ASKING`, which lets a node of a cluster answer for a slot that is moving to it.
    pub(super) fn asking(mut self) -> Self {
        let mut packed = redis::cmd("ASKING").get_packed_command();
        packed.extend_from_slice(&self.packed);
        self.packed = packed;
        self.replies += 1;
        self.expected = match self.expected {
            Expected::Like(is_like) => Expected::AskingLike(is_like),
            Expected::Transaction => Expected::AskingTransaction,
            other => other,
        };
        self
    }
}

/// The reply without that to [`ASKING`](Question::asking).
pub(super) fn asked(reply: Value) -> Value {
    match reply {
        Value::Array(mut replies) if replies.len() == 2 => replies.pop().unwrap_or(Value::Nil),
        Value::Array(mut replies) => {
            replies.drain(..1.min(replies.len()));
            Value::Array(replies)
        }
        other => other,
    }
}

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
}

impl Expected {
    pub(super) fn allows(self, reply: &Value, is_first: bool, is_last: bool) -> bool {
        if matches!(reply, Value::ServerError(_)) {
            return true;
        }
        match self {
            Self::Anything => true,
            Self::Like(is_like) => is_like(reply),
            Self::Transaction if is_first => *reply == Value::Okay,
            Self::Transaction if is_last => matches!(reply, Value::Array(_) | Value::Nil),
            Self::Transaction => matches!(reply, Value::SimpleString(text) if text == "QUEUED"),
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

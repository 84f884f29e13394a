//! [`Replies`]: the replies to a question, as they come.

use redis::{ServerError, Value};

use crate::store::redis::errors;
use crate::store::redis::wire::commands::Expected;

/// A reply that cannot be the one to its question.
#[derive(Debug)]
pub(crate) struct OutOfStep;

#[derive(Debug)]
pub(super) struct Replies {
    expected: std::vec::IntoIter<Expected>,
    /// What the caller is given.
    got: Vec<Value>,
    /// The first error.
    error: Option<ServerError>,
    /// Whether the last reply had the number of the question.
    is_proven: bool,
}

impl Replies {
    pub(crate) fn new(expected: Vec<Expected>) -> Self {
        Self { expected: expected.into_iter(), got: Vec::new(), error: None, is_proven: false }
    }

    /// Takes the next one in.
    pub(crate) fn take(&mut self, reply: Value) -> Result<(), OutOfStep> {
        self.is_proven = false;
        match (self.expected.next().ok_or(OutOfStep)?, reply) {
            (Expected::Okay, Value::Okay) => {}
            (Expected::Queued, Value::SimpleString(text)) if text == "QUEUED" => {}
            (Expected::Like(is_like), reply) if !is_error(&reply) && is_like(&reply) => self.got.push(reply),
            (Expected::Script(number, is_like), Value::BulkString(bytes)) => {
                let reply = Value::BulkString(number.strip(&bytes).ok_or(OutOfStep)?.to_vec());
                if !is_like(&reply) {
                    return Err(OutOfStep);
                }
                self.got.push(reply);
                self.is_proven = true;
            }
            (Expected::Echo(number), Value::BulkString(bytes)) if number.is_echo(&bytes) => self.is_proven = true,
            (Expected::Executed(number), Value::Array(mut replies)) => {
                match replies.pop() {
                    Some(Value::BulkString(bytes)) if number.is_echo(&bytes) => {}
                    _ => return Err(OutOfStep),
                }
                self.got.push(Value::Array(replies));
                self.is_proven = true;
            }
            (Expected::Executed(_), Value::Nil) => self.got.push(Value::Nil),
            // No command is in a PING, so what a server says to one is about the server.
            (Expected::Echo(_), Value::ServerError(error)) if !errors::is_said_to_a_ping(&error) => {
                return Err(OutOfStep);
            }
            (_, Value::ServerError(error)) => {
                self.error.get_or_insert(error);
            }
            _ => return Err(OutOfStep),
        }
        Ok(())
    }

    /// Whether all of them have come.
    pub(super) fn are_whole(&self) -> bool {
        self.expected.len() == 0
    }

    /// Whether the last of them shows that all of them, and all replies before, were those to their
    /// questions.
    pub(super) fn are_proven(&self) -> bool {
        self.is_proven
    }

    /// Those that have not come.
    #[cfg(test)]
    pub(crate) fn expected(&self) -> Vec<Expected> {
        self.expected.as_slice().to_vec()
    }

    /// The first error, or what the caller is given: a value, or an array of several.
    pub(super) fn into_answer(mut self) -> Value {
        match (self.error, self.got.len()) {
            (Some(error), _) => Value::ServerError(error),
            (None, 0) => Value::Nil,
            (None, 1) => self.got.pop().unwrap_or(Value::Nil),
            (None, _) => Value::Array(self.got),
        }
    }
}

fn is_error(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(_))
}

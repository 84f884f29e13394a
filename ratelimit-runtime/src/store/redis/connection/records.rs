//! The reply to a batch: for each question one record or more, each of which answers some of those who ask it.

use redis::{ServerError, Value, parse_redis_value};

use crate::store::Verdict;
use crate::store::redis::protocol;

/// What a record says to some of those who ask a question.
#[derive(Debug)]
pub(super) enum Record<'a> {
    /// To so many: for those who are admitted, what holds for the last of them.
    Verdict(Verdict, usize),
    /// To all: this question failed alone.
    Error(&'a [u8]),
}

/// The flags of a record that is an error. The length of its message stands where others say whom they answer.
const ERROR: u8 = 128;
const ERROR_HEAD: usize = 4;

/// Takes the next record off; `None` if no script writes such a thing.
pub(super) fn next<'a>(reply: &mut &'a [u8]) -> Option<Record<'a>> {
    if let ([ERROR, _, low, high], rest) = reply.split_first_chunk::<ERROR_HEAD>()? {
        let (message, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
        *reply = rest;
        return Some(Record::Error(message));
    }
    let (record, rest) = protocol::record(reply)?;
    *reply = rest;
    Some(Record::Verdict(record.verdict, usize::from(record.calls)))
}

/// Takes the records off that answer a question, if they answer exactly so many callers.
pub(super) fn skip(reply: &mut &[u8], callers: usize) -> Option<()> {
    let mut left = callers;
    while left > 0 {
        left = match next(reply)? {
            Record::Error(_) if left == callers => 0,
            Record::Verdict(_, answered) if answered > 0 => left.checked_sub(answered)?,
            _ => return None,
        };
    }
    Some(())
}

/// The error that a record holds.
pub(super) fn error(message: &[u8]) -> Option<ServerError> {
    // As a reply it is one line, whatever it holds.
    let line: Vec<u8> = message.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }).collect();
    match parse_redis_value(&[b"-", line.as_slice(), b"\r\n"].concat()) {
        Ok(Value::ServerError(error)) => Some(error),
        _ => None,
    }
}

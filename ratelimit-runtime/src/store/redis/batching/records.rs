//! The reply to a batch: for each question one record or more, each of which answers some of those
//! who ask it.

use redis::{ServerError, Value, parse_redis_value};

use crate::store::redis::scripts::protocol::{self, Record};

/// What a record says to some of those who ask a question.
pub(crate) enum BatchRecord<'a> {
    /// To so many: for those who are admitted, the verdict on the last of them.
    Verdict(Record, usize),
    /// To so many: they were not decided, and ask again.
    Later(usize),
    /// To all: this question failed alone.
    Error(&'a [u8]),
}

/// The flags of a record that is an error. The length of its message stands where others say whom
/// they answer.
const ERROR: u8 = 128;
const ERROR_HEAD: usize = 4;
/// The flags of a record that puts callers off, so that no call keeps the server too long.
const LATER: u8 = 64;

/// Takes the next record off; `None` if no script writes such a thing.
pub(crate) fn next<'a>(reply: &mut &'a [u8]) -> Option<BatchRecord<'a>> {
    if let ([ERROR, _, low, high], rest) = reply.split_first_chunk::<ERROR_HEAD>()? {
        let (message, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
        *reply = rest;
        return Some(BatchRecord::Error(message));
    }
    if let [LATER, _, low, high, ..] = reply {
        *reply = reply.get(protocol::RECORD..)?;
        return Some(BatchRecord::Later(usize::from(u16::from_le_bytes([*low, *high]))));
    }
    let (record, rest) = protocol::record(reply)?;
    *reply = rest;
    let calls = usize::from(record.calls);
    Some(BatchRecord::Verdict(record, calls))
}

/// Takes the records off that answer a question, if they answer exactly so many callers.
pub(crate) fn skip(reply: &mut &[u8], callers: usize) -> Option<()> {
    let mut left = callers;
    while left > 0 {
        left = match next(reply)? {
            BatchRecord::Error(_) if left == callers => 0,
            BatchRecord::Later(all) if all == left => 0,
            BatchRecord::Verdict(_, answered) if answered > 0 => left.checked_sub(answered)?,
            _ => return None,
        };
    }
    Some(())
}

/// What is said to a group of questions that are charged together.
#[derive(Debug)]
pub(crate) enum GroupRecord<'a> {
    /// The records of its questions.
    Verdicts(&'a [u8]),
    /// It was not decided, and asks again.
    Later,
    /// It failed alone.
    Error(&'a [u8]),
}

/// Takes the records off that answer a group of so many questions; `None` if no script writes such
/// a thing.
pub(crate) fn group<'a>(reply: &mut &'a [u8], questions: usize) -> Option<GroupRecord<'a>> {
    let all = *reply;
    for question in 0..questions {
        match next(reply)? {
            BatchRecord::Verdict(_, 1) => {}
            BatchRecord::Later(later) if question == 0 && later == questions => return Some(GroupRecord::Later),
            BatchRecord::Error(message) if question == 0 => return Some(GroupRecord::Error(message)),
            _ => return None,
        }
    }
    all.get(..all.len() - reply.len()).map(GroupRecord::Verdicts)
}

/// The error that a record holds.
pub(crate) fn error(message: &[u8]) -> Option<ServerError> {
    // As a reply it is one line, whatever it holds.
    let line: Vec<u8> = message.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }).collect();
    let first = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    // Up to Redis 6.2 the place in the script stands first, and the code somewhere behind it.
    let sort: &[u8] = if first.iter().all(u8::is_ascii_uppercase) { b"-" } else { b"-ERR " };
    match parse_redis_value(&[sort, line.as_slice(), b"\r\n"].concat()) {
        Ok(Value::ServerError(error)) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

    use super::*;
    use crate::error::StoreErrorKind;
    use crate::store::redis::errors;

    fn verdict(flags: u8, calls: u16) -> Vec<u8> {
        let mut record = [[flags, 0].as_slice(), &calls.to_le_bytes()].concat();
        let ticket = if flags == 1 { 41.0 } else { 0.0 };
        record.extend([7.0, 0.0, 60.0, ticket].into_iter().flat_map(f64::to_le_bytes));
        record
    }

    fn failure(message: &[u8]) -> Vec<u8> {
        [&[ERROR, 0, u8::try_from(message.len()).unwrap(), 0], message].concat()
    }

    #[test]
    fn records_answer_exactly_those_who_ask() {
        let some_refused = [verdict(1, 3), verdict(0, 2)].concat();
        let some_later = [verdict(1, 3), verdict(LATER, 4)].concat();
        for (reply, callers) in [
            (verdict(1, 1), 1),
            (verdict(1, 512), 512),
            (some_refused, 5),
            (some_later, 7),
            (verdict(LATER, 2), 2),
            (failure(b"OOM x"), 9),
        ] {
            let mut left = reply.as_slice();
            assert!(skip(&mut left, callers).is_some() && left.is_empty());
            for others in [callers - 1, callers + 1] {
                let mut left = reply.as_slice();
                let fits = others > 0 && skip(&mut left, others).is_some() && left.is_empty();
                assert!(!fits || reply[0] == ERROR, "{others} instead of {callers}");
            }
            for end in 0..reply.len() {
                assert!(skip(&mut &reply[..end], callers).is_none(), "cut at {end}");
            }
        }
    }

    #[test]
    fn what_no_script_writes_is_none() {
        let after_some = [verdict(1, 1), failure(b"OOM x")].concat();
        let after_later = [verdict(LATER, 1), verdict(1, 1)].concat();
        for reply in [verdict(1, 0), verdict(4, 1), verdict(129, 1), verdict(LATER, 0), after_some, after_later] {
            assert!(skip(&mut reply.as_slice(), 2).is_none());
        }
        let mut negative = verdict(1, 1);
        negative[4..12].copy_from_slice(&(-1.0_f64).to_le_bytes());
        assert!(skip(&mut negative.as_slice(), 1).is_none());
    }

    #[test]
    fn a_message_is_the_error_that_it_says() {
        assert_eq!(error(b"WRONGTYPE Operation against a key").unwrap().code(), "WRONGTYPE");
        let old = error(b"@user_script: 12: -OOM command not allowed when used memory > 'maxmemory'.").unwrap();
        assert_eq!(errors::from_server(&old).kind(), StoreErrorKind::Full);
        // It cannot bring replies of its own along.
        let forged = error(b"OOM x\r\n+OK\r\n").unwrap();
        assert_eq!((forged.code(), forged.details()), ("OOM", Some("x  +OK  ")));
    }
}

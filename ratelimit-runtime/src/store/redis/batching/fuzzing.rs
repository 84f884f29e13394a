//! The records in the reply to a batch.
#![allow(clippy::missing_panics_doc, reason = "each panics if something does not hold")]

use redis::Value;

use super::records::{self, BatchRecord};
use crate::fuzzing::Input;
use crate::store::redis::errors;
use crate::store::redis::scripts::protocol;

/// Records, of questions that several callers ask.
pub fn records(data: &[u8]) {
    let mut input = Input(data);
    let questions: Vec<usize> = (0..=input.below(3)).map(|_| usize::from(input.byte())).collect();
    let reply = input.0;
    let value = Value::BulkString(reply.to_vec());
    if let Some(verdict) = protocol::verdict(&value) {
        assert!(protocol::verdicts(&value).is_some_and(|verdicts| verdicts == [verdict]));
    }
    let mut rest = reply;
    let fits = questions.iter().all(|callers| records::skip(&mut rest, *callers).is_some()) && rest.is_empty();
    let mut rest = reply;
    for callers in questions {
        let mut answered = 0;
        while answered < callers {
            match records::next(&mut rest) {
                Some(BatchRecord::Verdict(_, some)) if some > 0 => answered += some,
                Some(BatchRecord::Later(all)) if all > 0 => answered += all,
                Some(BatchRecord::Error(message)) => {
                    if let Some(error) = records::error(message) {
                        let _ = errors::from_server(&error);
                    }
                    answered = callers;
                }
                _ => {
                    assert!(!fits, "a reply that fits has an answer to everybody");
                    return;
                }
            }
        }
        assert!(answered == callers || !fits);
    }
    assert!(!fits || rest.is_empty());
}

//! [`ScriptAnswer`]: what a script says to those who ask one question of one key.

use redis::{ServerError, Value};

use super::question::Question;
use super::script::lua;
use crate::store::Verdict;

/// What those are told who ask one question of one key together. Times are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScriptAnswer {
    /// How many of them are admitted, the first to ask.
    admitted: u16,
    limit_index: u8,
    /// After the last of them.
    remaining: u64,
    /// Until the next one would be admitted. Of a settlement: how much was too much to be charged.
    retry_after: u64,
    reset_after: u64,
    /// Of the first of them.
    ticket: u64,
    /// 0 if there is none.
    blocked_until: u64,
}

/// A reply that does not answer what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Foreign;

const PAIR: usize = 16;
const RECORD: usize = 43;

impl ScriptAnswer {
    /// What stands in a reply for so many callers: a number, a pair or a record.
    ///
    /// # Errors
    ///
    /// `Foreign` if no script would say that.
    pub(super) fn read(
        value: &Value,
        question: &Question,
        now: u64,
        callers: u16,
    ) -> Result<Result<Self, ServerError>, Foreign> {
        match value {
            Value::Int(number) => {
                let number = u64::try_from(*number).map_err(|_| Foreign)?;
                Ok(Ok(Self::number(number, question, now, callers)))
            }
            Value::BulkString(bytes) => Self::bytes(bytes, question, now, callers).map(Ok),
            Value::ServerError(error) => Ok(Err(error.clone())),
            _ => Err(Foreign),
        }
    }

    /// The same of a lone reply, whose number is bytes as well.
    pub(super) fn bytes(bytes: &[u8], question: &Question, now: u64, callers: u16) -> Result<Self, Foreign> {
        let counts = bytes.get(if bytes.len() == RECORD { 3.. } else { 0.. }).ok_or(Foreign)?;
        let answer = match (bytes.len(), counts.as_chunks::<8>().0) {
            (8, [number]) => Self::number(count(*number)?, question, now, callers),
            (PAIR, [remaining, reset]) => Self::all(callers, count(*remaining)?, count(*reset)?, now),
            (RECORD, [remaining, retry, reset, ticket, blocked]) => {
                let &[low, high, limit_index, ..] = bytes else { return Err(Foreign) };
                Self {
                    admitted: u16::from_le_bytes([low, high]),
                    limit_index,
                    remaining: count(*remaining)?,
                    retry_after: count(*retry)?,
                    reset_after: count(*reset)?,
                    ticket: count(*ticket)?,
                    blocked_until: count(*blocked)?,
                }
            }
            _ => return Err(Foreign),
        };
        if answer.admitted <= callers { Ok(answer) } else { Err(Foreign) }
    }

    fn number(number: u64, question: &Question, now: u64, callers: u16) -> Self {
        let (remaining, reset) = (lua(question.algorithm).number)(&question.limit, number);
        Self::all(callers, remaining, reset, now)
    }

    fn all(admitted: u16, remaining: u64, reset_after: u64, now: u64) -> Self {
        Self { admitted, limit_index: 0, remaining, retry_after: 0, reset_after, ticket: now, blocked_until: 0 }
    }

    /// What the caller with this index is told, from 0, whose question was decided at `now`. Of a
    /// settlement, `retry_after_us` is how much was too much to be charged.
    pub(crate) fn verdict(&self, index: u16, question: &Question, now: u64) -> Verdict {
        let verdict = Verdict {
            limit_index: self.limit_index.into(),
            remaining: self.remaining,
            reset_after_us: self.reset_after,
            ..Verdict::admitted()
        };
        if index < self.admitted {
            let (before, after) = (u64::from(index), u64::from(self.admitted - 1 - index));
            // Only units that have numbers of their own are counted on.
            let units = if question.algorithm.row().is_log { before * question.cost } else { 0 };
            let remaining = self.remaining + after * question.cost;
            let dropped = if question.is_charge { 0 } else { self.retry_after };
            return Verdict { remaining, retry_after_us: dropped, ticket: self.ticket + units, ..verdict };
        }
        let refused = Verdict { allowed: false, retry_after_us: self.retry_after, ..verdict };
        if self.blocked_until > now {
            // To those admitted before it was set, the answer says what remained.
            return Verdict { remaining: 0, ..refused }.by_block_for(self.blocked_until - now);
        }
        refused
    }
}

/// A number of the scripts: they count from 0 to below 2⁵³. Where another program has written a
/// fraction, they may answer with one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
pub(super) fn count(bytes: [u8; 8]) -> Result<u64, Foreign> {
    let number = f64::from_le_bytes(bytes);
    // What is not negative is ordered as its bits are; all else is greater.
    let is_count = number.to_bits() < 9_007_199_254_740_992.0_f64.to_bits() || number == 0.0;
    if is_count { Ok(number as u64) } else { Err(Foreign) }
}

//! [`ScriptAnswer`]: the answer of a script to the callers of one question about one key.
//! [`Reply`]: its part for one of them.

use redis::{ServerError, Value};
use rmp::{Marker, decode};

use super::question::{CallQuestion, Granted, Operation, double};
use super::script::lua;
use crate::store::{Settled, Verdict};

/// The reply to one caller about one key, which each operation reads as its own type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    /// The verdict; `allowed` if another operation was done. In a reply about permits, `remaining`
    /// is the number of calls in flight.
    verdict: Verdict,
    /// The granted units, which may be 0.
    units: u16,
    /// The lease of a grant, or the part of an actual cost that was not charged.
    second: u64,
}

impl From<Verdict> for Reply {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            units: 0,
            second: 0,
        }
    }
}

impl Reply {
    /// The verdict of a charge or a look; of a grant, the standing of the limits before it.
    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// `true` if a refund, a block or its end has changed anything, or a permit was acquired,
    /// renewed or released.
    pub(crate) fn is_done(&self) -> bool {
        self.verdict.allowed
    }

    pub(crate) fn settled(&self) -> Settled {
        Settled::new(self.is_done(), self.second)
    }

    pub(crate) fn granted(&self) -> Granted {
        Granted {
            units: self.units.into(),
            ticket: self.verdict.ticket,
            lease: self.second,
        }
    }

    /// The number of calls of the key that are in flight, in reply to a question about permits.
    pub(crate) fn in_flight(&self) -> u64 {
        self.verdict.remaining
    }
}

/// The answer to the callers that ask one question about one key together. Only decisions are
/// shared.
#[derive(Debug, Clone)]
pub(crate) struct ScriptAnswer {
    /// The number of callers that are admitted: the first to ask. The units of a grant; else 1 if
    /// the operation is done.
    admitted: u16,
    limit_index: u8,
    /// The cost that remains after the last admission.
    remaining: u64,
    /// The time until a refused caller would be admitted.
    second: u64,
    reset_after_us: u64,
    /// The ticket of the first admission; 0 if nothing is charged.
    ticket: u64,
    /// The rest of the refusing block, in microseconds; 0 for none.
    block: u64,
    /// The cost that each admission takes from the remaining one.
    cost: u64,
    /// The distance of their tickets: only the units of a log have tickets of their own.
    step: u64,
}

/// The length of a record, in bytes; a number and a pair are shorter.
const RECORD: usize = 43;

impl ScriptAnswer {
    /// Reads the next answer of a packed reply; `None` if no script gives such an answer. If
    /// `is_charged` is `false`, admitted callers are not charged.
    pub(super) fn packed(
        bytes: &mut &[u8],
        question: &CallQuestion<'_>,
        now: u64,
        is_charged: bool,
    ) -> Option<Result<Self, ServerError>> {
        let answer = match Marker::from_u8(*bytes.first()?) {
            Marker::FixArray(1) => {
                *bytes = bytes.get(1..)?;
                let error = [b"-", packed_text(bytes)?, b"\r\n"].concat();
                let Ok(Value::ServerError(error)) = redis::parse_redis_value(&error) else {
                    return None;
                };
                return Some(Err(error));
            }
            Marker::FixStr(_) | Marker::Str8 => packed_text(bytes)?,
            _ => &double(packed_number(bytes)?).to_le_bytes(),
        };
        Self::read(answer, question, now, is_charged).map(Ok)
    }

    /// Reads a number, a pair or a record. Times are in microseconds; `now` is that of the
    /// decision.
    pub(super) fn read(
        bytes: &[u8],
        asked: &CallQuestion<'_>,
        now: u64,
        is_charged: bool,
    ) -> Option<Self> {
        let CallQuestion {
            question, callers, ..
        } = *asked;
        let (head, counts) = bytes.split_at(if bytes.len() == RECORD { 3 } else { 0 });
        let all_admitted = |remaining, reset| (callers, 0, [remaining, 0, reset, now, 0]);
        let (admitted, limit_index, numbers) = match (head, counts.as_chunks::<8>()) {
            ([], ([number], [])) => {
                let subject = question.subject.as_ref()?;
                let read = lua(subject.algorithm).number;
                let (remaining, reset) = read(subject.limits.first()?, count(*number)?, now);
                all_admitted(remaining, reset)
            }
            ([], ([remaining, reset], [])) => all_admitted(count(*remaining)?, count(*reset)?),
            ([low, high, limit_index], ([remaining, second, reset, ticket, blocked], [])) => {
                let numbers = [
                    count(*remaining)?,
                    count(*second)?,
                    count(*reset)?,
                    count(*ticket)?,
                    count(*blocked)?,
                ];
                (u16::from_le_bytes([*low, *high]), *limit_index, numbers)
            }
            _ => return None,
        };
        let (cost, is_log) = match &question.subject {
            Some(subject) if matches!(subject.operation, Operation::Grant(_)) => (0, false),
            _ if admitted > callers => return None,
            Some(subject) => (subject.cost, subject.algorithm.row().is_log),
            None => (0, false),
        };
        let [remaining, second, reset_after_us, ticket, blocked_until] = numbers;
        Some(Self {
            admitted,
            limit_index,
            remaining,
            second,
            reset_after_us,
            ticket: if is_charged { ticket } else { 0 },
            block: blocked_until.saturating_sub(now),
            cost,
            step: if is_log { cost } else { 0 },
        })
    }

    /// The reply to the caller with this index, from 0.
    pub(crate) fn reply(&self, index: u16) -> Reply {
        let mut verdict = Verdict {
            limit_index: self.limit_index.into(),
            remaining: self.remaining,
            reset_after_us: self.reset_after_us,
            ..Verdict::admitted()
        };
        if index < self.admitted {
            verdict.remaining += u64::from(self.admitted - 1 - index) * self.cost;
            verdict.ticket = self.ticket + u64::from(index) * self.step;
        } else {
            (verdict.allowed, verdict.retry_after_us) = (false, self.second);
            if self.block > 0 {
                // The remaining units are told to callers that were admitted before it was set.
                verdict.remaining = 0;
                verdict = verdict.by_block_for(self.block);
            }
        }
        Reply {
            verdict,
            units: self.admitted,
            second: self.second,
        }
    }
}

/// A number of the scripts: they count from 0 to below 2⁵³. If another program has written a
/// fraction, they may reply with one.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is a count"
)]
pub(super) fn count(bytes: [u8; 8]) -> Option<u64> {
    let number = f64::from_le_bytes(bytes);
    // Numbers that are not negative are ordered as their bits; all others have greater bits.
    let is_count = number.to_bits() < 9_007_199_254_740_992.0_f64.to_bits() || number == 0.0;
    is_count.then_some(number as u64)
}

/// Reads the next value of a packed reply, a number.
pub(super) fn packed_number(bytes: &mut &[u8]) -> Option<u64> {
    match Marker::from_u8(*bytes.first()?) {
        Marker::F32 => count(f64::from(decode::read_f32(bytes).ok()?).to_le_bytes()),
        Marker::F64 => count(decode::read_f64(bytes).ok()?.to_le_bytes()),
        _ => decode::read_int(bytes)
            .ok()
            .filter(|number| *number < 1 << 53),
    }
}

/// Reads the next value of a packed reply, a text.
fn packed_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(decode::read_str_len(bytes).ok()?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}

//! [`ScriptAnswer`]: the answer of a script to the callers of one question about one key.
//! [`Reply`]: its part for one of them.

use redis::{ServerError, Value};
use rmp::{Marker, decode};

use super::question::{CallQuestion, Granted, LimitsSubject, Operation, Subject, double};
use super::script::lua;
use crate::error::StoreError;
use crate::store::redis::errors::unexpected_reply;
use crate::store::{Settled, Verdict};

/// The reply to one caller about one key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    /// The verdict of a charge or a look.
    Decision(Verdict),
    /// `true` if a refund, a block or its end has changed anything.
    Changed(bool),
    Settled(Settled),
    Granted(GrantReply),
    Permit(PermitReply),
}

/// The reply to a request for units ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrantReply {
    /// The granted units, which may be 0.
    pub(crate) granted: Granted,
    /// The standing of the limits before: the cost that remained of the limit with the least left,
    /// and the time until that is whole again.
    pub(crate) before: Verdict,
}

/// The reply to a question about a permit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PermitReply {
    /// `true` if the permit was acquired, renewed or released.
    pub(crate) is_done: bool,
    /// The number of calls of the key that are in flight.
    pub(crate) in_flight: u64,
}

/// Each of these is an error if another kind of question was asked.
impl Reply {
    pub(crate) fn decision(self) -> Result<Verdict, StoreError> {
        match self {
            Self::Decision(verdict) => Ok(verdict),
            _ => Err(unexpected_reply()),
        }
    }

    pub(crate) fn changed(self) -> Result<bool, StoreError> {
        match self {
            Self::Changed(is_changed) => Ok(is_changed),
            _ => Err(unexpected_reply()),
        }
    }

    pub(crate) fn settled(self) -> Result<Settled, StoreError> {
        match self {
            Self::Settled(settled) => Ok(settled),
            _ => Err(unexpected_reply()),
        }
    }

    pub(crate) fn granted(self) -> Result<GrantReply, StoreError> {
        match self {
            Self::Granted(reply) => Ok(reply),
            _ => Err(unexpected_reply()),
        }
    }

    pub(crate) fn permit(self) -> Result<PermitReply, StoreError> {
        match self {
            Self::Permit(reply) => Ok(reply),
            _ => Err(unexpected_reply()),
        }
    }
}

/// The answer to the callers that ask one question about one key together.
#[derive(Debug, Clone)]
pub(crate) enum ScriptAnswer {
    Decisions(Decisions),
    /// The reply to one caller: only decisions are shared.
    One(Reply),
}

#[derive(Debug, Clone)]
pub(crate) struct Decisions {
    /// The number of callers that are admitted: the first to ask.
    admitted: u16,
    /// The cost that remains after the last admission, and the ticket of the first.
    admission: Verdict,
    refusal: Verdict,
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
                let Subject::Limits(subject) = &question.subject else {
                    return None;
                };
                let read = lua(subject.algorithm).number;
                let (remaining, reset) = read(subject.limits.first()?, count(*number)?, now);
                all_admitted(remaining, reset)
            }
            ([], ([remaining, reset], [])) => all_admitted(count(*remaining)?, count(*reset)?),
            ([low, high, limit_index], ([remaining, retry, reset, ticket, blocked], [])) => {
                let numbers = [
                    count(*remaining)?,
                    count(*retry)?,
                    count(*reset)?,
                    count(*ticket)?,
                    count(*blocked)?,
                ];
                (u16::from_le_bytes([*low, *high]), *limit_index, numbers)
            }
            _ => return None,
        };
        let is_grant = matches!(
            &question.subject,
            Subject::Limits(subject) if matches!(subject.operation, Operation::Grant(_))
        );
        if admitted > callers && !is_grant {
            return None;
        }
        let (is_done, [first, second, ..]) = (admitted > 0, numbers);
        let subject = match &question.subject {
            Subject::Limits(subject) => subject,
            Subject::Permit => {
                let in_flight = first;
                return Some(Self::One(Reply::Permit(PermitReply { is_done, in_flight })));
            }
        };
        Some(match subject.operation {
            Operation::Acquire | Operation::Peek | Operation::Offend => {
                let [
                    remaining,
                    retry_after_us,
                    reset_after_us,
                    ticket,
                    blocked_until,
                ] = numbers;
                let verdict = Verdict {
                    limit_index: limit_index.into(),
                    remaining,
                    reset_after_us,
                    ..Verdict::admitted()
                };
                let admission = Verdict {
                    ticket: if is_charged { ticket } else { 0 },
                    ..verdict
                };
                let refusal = Verdict {
                    allowed: false,
                    retry_after_us,
                    ..verdict
                };
                Self::Decisions(Decisions::new(
                    subject,
                    admitted,
                    admission,
                    refusal,
                    blocked_until.saturating_sub(now),
                ))
            }
            Operation::Refund(_)
            | Operation::Block(_)
            | Operation::Unblock
            | Operation::GiveBack(_) => Self::One(Reply::Changed(is_done)),
            Operation::Grant(_) => {
                let [remaining, lease, reset_after_us, ticket, _] = numbers;
                Self::One(Reply::Granted(GrantReply {
                    granted: Granted {
                        units: admitted.into(),
                        ticket,
                        lease,
                    },
                    before: Verdict {
                        limit_index: limit_index.into(),
                        remaining,
                        reset_after_us,
                        ..Verdict::admitted()
                    },
                }))
            }
            // The second number is how much was too much to be charged.
            Operation::Settle(..) => Self::One(Reply::Settled(Settled::new(is_done, second))),
        })
    }

    /// The reply to the caller with this index, from 0.
    pub(crate) fn reply(&self, index: u16) -> Reply {
        match self {
            Self::Decisions(decisions) => Reply::Decision(decisions.verdict(index)),
            Self::One(reply) => *reply,
        }
    }
}

impl Decisions {
    /// `block` is how long the refusing block goes on, in microseconds; 0 for none.
    fn new(
        subject: &LimitsSubject,
        admitted: u16,
        admission: Verdict,
        refusal: Verdict,
        block: u64,
    ) -> Self {
        let refusal = match block {
            0 => refusal,
            // The remaining units are told to callers that were admitted before it was set.
            block => Verdict {
                remaining: 0,
                ..refusal
            }
            .by_block_for(block),
        };
        let is_log = subject.algorithm.row().is_log;
        Self {
            admitted,
            admission,
            refusal,
            cost: subject.cost,
            step: if is_log { subject.cost } else { 0 },
        }
    }

    fn verdict(&self, index: u16) -> Verdict {
        if index >= self.admitted {
            return self.refusal;
        }
        let mut verdict = self.admission;
        verdict.remaining += u64::from(self.admitted - 1 - index) * self.cost;
        verdict.ticket += u64::from(index) * self.step;
        verdict
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

//! Questions and replies as the scripts speak them; `head.lua` has the other side.

use redis::Value;
use smallvec::SmallVec;

use super::layout::LogLayout;
use super::operation::Operation;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::{Request, Verdict};

fn operation_number(operation: Operation) -> u8 {
    match operation {
        Operation::Acquire => 1,
        Operation::Reserve => 2,
        Operation::Peek => 3,
        Operation::Refund(_) => 4,
        Operation::Release(_) => 5,
        Operation::Commit(_) => 6,
        Operation::Block(_) => 7,
        Operation::Unblock => 8,
        Operation::CommitActual(..) => 9,
    }
}

/// A question, as the argument of a script. One about a charge under a single limit fits without
/// allocating.
pub(crate) type Question = SmallVec<[u8; 63]>;

/// Where a question says how many calls ask it of each key, and how many keys it is about.
pub(crate) const CALLS: std::ops::Range<usize> = 2..4;
pub(crate) const COVERS: std::ops::Range<usize> = 4..6;

/// What one call asks of one key.
pub(crate) fn question(operation: Operation, request: &Request<'_>, log: Option<LogLayout>) -> Question {
    let block = match operation {
        Operation::Block(duration) => request.with_block(duration).block_us(),
        _ => request.block_us(),
    };
    let row = request.algorithm().row();
    let layout = match log.filter(|_| row.is_log) {
        None => 0,
        Some(LogLayout::Zset) => 1,
        Some(LogLayout::Ring) => 2,
    };
    let limits = u8::try_from(request.limits().len()).unwrap_or(u8::MAX);
    let mut question = Question::new();
    question.extend_from_slice(&[operation_number(operation), row.number << 4 | layout, 1, 0, 1, 0, limits]);
    let longest = request.block_duration().longest_us();
    question.extend_from_slice(doubles([request.cost(), block, longest]).as_flattened());
    for limit in request.limits() {
        // A limit of 0 is never asked whether it admits, only reset and the like; the scripts
        // divide by `max`.
        let (max, window) = (limit.max().max(1), limit.window_us());
        let numbers = [max, window, limit.capacity().max(1), common_divisor(window, max)];
        question.extend_from_slice(doubles(numbers).as_flattened());
    }
    if !matches!(operation, Operation::Acquire | Operation::Reserve | Operation::Peek) {
        question.extend_from_slice(doubles([operation.ticket()]).as_flattened());
    }
    if let Operation::CommitActual(_, actual_cost) = operation {
        question.extend_from_slice(doubles([actual_cost]).as_flattened());
    }
    question
}

/// The greatest number that divides both.
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The numbers of the scripts: exact up to 2⁵³, and nothing here is larger.
#[allow(clippy::cast_precision_loss, reason = "counts are below 2^52, and so are times")]
pub(super) fn doubles<const N: usize>(numbers: [u64; N]) -> [[u8; 8]; N] {
    numbers.map(|number| (number as f64).to_le_bytes())
}

/// The scripts answer with whole numbers.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
fn whole(bytes: &[u8]) -> Option<u64> {
    let number = f64::from_le_bytes(bytes.try_into().ok()?);
    (0.0..9_007_199_254_740_992.0).contains(&number).then_some(number as u64)
}

/// What a refusal says in place of a ticket: a number below 0, or 0.
fn below_zero(bytes: &[u8]) -> Option<u64> {
    whole(&(-f64::from_le_bytes(bytes.try_into().ok()?)).to_le_bytes())
}

/// What a script says to some calls of a question.
pub(crate) struct Record {
    /// Of the last of these calls; the ticket is that of the first.
    pub(crate) verdict: Verdict,
    pub(crate) calls: u16,
}

pub(crate) const RECORD: usize = 36;

/// The first record of a reply, and what follows.
pub(crate) fn record(reply: &[u8]) -> Option<(Record, &[u8])> {
    let (record, rest) = reply.split_at_checked(RECORD)?;
    let [flags @ 0..=3, limit, low, high, numbers @ ..] = record else { return None };
    let (remaining, numbers) = numbers.split_at_checked(8)?;
    let (retry_after, numbers) = numbers.split_at_checked(8)?;
    let (reset_after, ticket) = numbers.split_at_checked(8)?;
    let verdict = Verdict {
        allowed: flags & 1 == 1,
        limit_index: usize::from(*limit),
        remaining: whole(remaining)?,
        retry_after_us: whole(retry_after)?,
        reset_after_us: whole(reset_after)?,
        ..Verdict::admitted()
    };
    let verdict = match (verdict.allowed, flags & 2 == 2) {
        (true, _) => verdict.with_ticket(whole(ticket)?),
        (false, true) => verdict.by_block_for(below_zero(ticket)?),
        (false, false) => match below_zero(ticket)? {
            0 => verdict,
            released => verdict.behind_reservations(released - 1),
        },
    };
    Some((Record { verdict, calls: u16::from_le_bytes([*low, *high]) }, rest))
}

/// The reply to one call.
pub(crate) fn verdict(reply: &Value) -> Option<Verdict> {
    let Value::BulkString(reply) = reply else { return None };
    match record(reply)? {
        (Record { verdict, calls: 1 }, []) => Some(verdict),
        _ => None,
    }
}

/// The reply of [`ALL_OR_NONE`](super::script::ALL_OR_NONE).
pub(crate) fn verdicts(reply: &Value) -> Option<Vec<Verdict>> {
    let Value::BulkString(reply) = reply else { return None };
    let mut verdicts = Vec::with_capacity(reply.len() / RECORD);
    let mut rest = reply.as_slice();
    while !rest.is_empty() {
        let (record, following) = record(rest)?;
        verdicts.push(record.verdict);
        rest = following;
    }
    Some(verdicts)
}

/// The time of a store's own clock, in microseconds; `None` for the server's.
///
/// # Errors
///
/// `Misconfigured` if it is so late that a script could not add a window exactly.
pub(crate) fn own_time(clock: Option<&dyn Clock>) -> Result<Option<u64>, StoreError> {
    let Some(clock) = clock else { return Ok(None) };
    let now = clock.now().as_micros();
    match u64::try_from(now) {
        Ok(now) if u128::from(now) + Limit::MAX_WINDOW.as_micros() <= u128::from(Limit::MAX_COUNT) => Ok(Some(now)),
        _ => Err(StoreError::misconfigured("the clock of the Redis store is more than 284 years past its start")),
    }
}

// What a connection is told to expect: a reply that cannot belong to its question shows that
// replies and questions have come apart.

pub(crate) fn is_verdict(reply: &Value) -> bool {
    verdict(reply).is_some()
}

pub(crate) fn are_verdicts(reply: &Value) -> bool {
    verdicts(reply).is_some()
}

/// Whether such a verdict can be the one on this request.
pub(crate) fn fits(verdict: &Verdict, request: &Request<'_>) -> bool {
    request
        .limits()
        .get(verdict.limit_index)
        .is_some_and(|limit| verdict.remaining <= limit.capacity().max(limit.max()))
}

//! Questions and replies as the scripts speak them; `head.lua` has the other side.

use redis::Value;
use smallvec::SmallVec;

use super::layout::LogLayout;
use super::operation::Operation;
use super::script::CALENDAR_NUMBER;
use crate::clock::{Clock, SystemClock};
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
pub(crate) type Question = SmallVec<[u8; SINGLE]>;

/// The bytes of a question up to its first limit, and to the end of that.
const HEAD: usize = 7;
const SINGLE: usize = HEAD + 7 * 8;

/// Where a question says how many calls ask it of each key, and how many keys it is about.
pub(crate) const CALLS: std::ops::Range<usize> = 2..4;
pub(crate) const COVERS: std::ops::Range<usize> = 4..6;

/// What one call asks of one key, at the caller's time in microseconds, or `None` for the server's.
pub(crate) fn question(
    operation: Operation,
    request: &Request<'_>,
    log: Option<LogLayout>,
    now: Option<u64>,
) -> Question {
    let question = question_of_spans(operation, request, log);
    if request.has_calendar() { with_instants(question, request, now) } else { question }
}

/// The question whose limits are all windows of one length.
fn question_of_spans(operation: Operation, request: &Request<'_>, log: Option<LogLayout>) -> Question {
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
    let [max, window, capacity, divisor] = request.limits().first().map_or([0; 4], numbers);
    let longest = request.block_duration().longest_us();
    // Written at once, because most questions have one limit.
    let mut single = [0; SINGLE];
    let (head, counts) = single.split_at_mut(HEAD);
    head.copy_from_slice(&[operation_number(operation), row.number << 4 | layout, 1, 0, 1, 0, limits]);
    counts.copy_from_slice(doubles([request.cost(), block, longest, max, window, capacity, divisor]).as_flattened());
    let mut question = Question::from_buf(single);
    if request.limits().is_empty() {
        question.truncate(HEAD + 3 * 8);
    }
    for limit in request.limits().iter().skip(1) {
        question.extend_from_slice(doubles(numbers(limit)).as_flattened());
    }
    if !matches!(operation, Operation::Acquire | Operation::Reserve | Operation::Peek) {
        question.extend_from_slice(doubles([operation.ticket()]).as_flattened());
    }
    if let Operation::CommitActual(_, actual_cost) = operation {
        question.extend_from_slice(doubles([actual_cost]).as_flattened());
    }
    question
}

/// The same with the periods of its calendar quotas. The script chooses among them by the time of
/// the decision, which may be in the period before or after that of this process.
#[cold]
fn with_instants(mut question: Question, request: &Request<'_>, now: Option<u64>) -> Question {
    let now = now.unwrap_or_else(|| u64::try_from(SystemClock.now().as_micros()).unwrap_or(u64::MAX));
    if let Some(number) = question.get_mut(1) {
        *number = CALENDAR_NUMBER << 4;
    }
    let mut instants = Question::new();
    for (limit, at) in request.limits().iter().zip((HEAD + 3 * 8..).step_by(4 * 8)) {
        let Some(calendar) = limit.by_calendar() else { continue };
        instants.extend_from_slice(doubles(calendar.instants(now).ends).as_flattened());
        // Its capacity.
        if let Some(capacity) = question.get_mut(at + 2 * 8..at + 3 * 8) {
            capacity.copy_from_slice(&0.0_f64.to_le_bytes());
        }
    }
    question.insert_from_slice(HEAD + 3 * 8 + 4 * 8 * request.limits().len(), &instants);
    question
}

/// What the scripts are told of a limit.
fn numbers(limit: &Limit) -> [u64; 4] {
    // A limit of 0 is never asked whether it admits, only reset and the like; the scripts divide by
    // `max`.
    let (max, window) = (limit.max().max(1), limit.longest_us());
    [max, window, limit.capacity().max(1), common_divisor(window, max)]
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

/// Whether a script may answer with this number: it counts from 0 to below 2⁵³.
fn is_count(number: f64) -> bool {
    // The numbers that are not negative are ordered as their bits are; those of all others are
    // greater.
    number.to_bits() < 9_007_199_254_740_992.0_f64.to_bits() || number == 0.0
}

/// What a script says to some calls of a question.
pub(crate) struct Record {
    flags: u8,
    limit: u8,
    pub(crate) calls: u16,
    /// What remains, when to come again and when all is as new, and the ticket of the first of
    /// these calls; in place of that a refusal has a number below 0, or 0, which is here without
    /// its sign.
    numbers: [f64; 4],
}

pub(crate) const RECORD: usize = 36;

/// The first record of a reply, and what follows; `None` if no script writes such a thing.
pub(crate) fn record(reply: &[u8]) -> Option<(Record, &[u8])> {
    let (&[flags @ 0..=3, limit, low, high], rest) = reply.split_first_chunk()? else { return None };
    let (numbers, rest) = rest.split_first_chunk::<{ RECORD - 4 }>()?;
    let mut numbers = <[[u8; 8]; 4]>::try_from(numbers.as_chunks().0).ok()?.map(f64::from_le_bytes);
    if flags & 1 == 0 {
        numbers[3] = -numbers[3];
    }
    let is_one = numbers.iter().all(|number| is_count(*number));
    is_one.then_some((Record { flags, limit, calls: u16::from_le_bytes([low, high]), numbers }, rest))
}

impl Record {
    /// Of the last of these calls; the ticket is that of the first.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are counts")]
    pub(crate) fn verdict(&self) -> Verdict {
        let [remaining, retry_after_us, reset_after_us, ticket] = self.numbers.map(|number| number as u64);
        let allowed = self.flags & 1 == 1;
        let limit_index = usize::from(self.limit);
        let verdict =
            Verdict { allowed, limit_index, remaining, retry_after_us, reset_after_us, ..Verdict::admitted() };
        match (allowed, self.flags & 2 == 2) {
            (true, _) => verdict.with_ticket(ticket),
            (false, true) => verdict.by_block_for(ticket),
            (false, false) => match ticket {
                0 => verdict,
                released => verdict.behind_reservations(released - 1),
            },
        }
    }
}

/// The reply to one call.
pub(crate) fn verdict(reply: &Value) -> Option<Verdict> {
    let Value::BulkString(reply) = reply else { return None };
    match record(reply)? {
        (record @ Record { calls: 1, .. }, []) => Some(record.verdict()),
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
        verdicts.push(record.verdict());
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

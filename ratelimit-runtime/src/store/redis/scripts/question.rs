//! [`Question`]: the question of one caller about one key, as bytes. It does not name the key, so
//! that callers with equal questions about several keys share one.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;

use super::script::Script;
use crate::clock::{Clock, SystemClock};
use crate::error::StoreError;
use crate::rule::{Algorithm, BlockDuration, Limit};
use crate::store::{Request, Reserves};

/// An operation on a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Acquire,
    Peek,
    /// Looks, and sets the block of a request that the limits refuse.
    Offend,
    Refund(u64),
    /// Settles the reservation with this ticket at this actual cost.
    Settle(u64, u64),
    /// Blocks for this time, in microseconds.
    Block(u64),
    Unblock,
    /// Takes up to the request's cost ahead, to be spent within this lease, in microseconds.
    Grant(u64),
    /// Gives back the units that are left of a grant: the request's cost.
    GiveBack(Granted),
}

/// Units that were taken ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) units: u64,
    /// The ticket of the first unit; in a log, further units have the microseconds after it.
    pub(crate) ticket: u64,
    /// The lease in which the units may be spent, in microseconds.
    pub(crate) lease: u64,
}

/// A question to a script about a key that it does not name. Callers with equal questions share
/// one.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) script: &'static Script,
    /// The caller's time in microseconds; `None` for the server's.
    pub(crate) now: Option<u64>,
    /// The limits in question; `None` for a permit of the key's calls in flight.
    pub(super) subject: Option<LimitsSubject>,
    pub(super) bytes: Vec<u8>,
}

/// The subject of a question about limits, by which its answer is read.
#[derive(Debug)]
pub(super) struct LimitsSubject {
    pub(super) operation: Operation,
    pub(super) algorithm: Algorithm,
    /// The limits. A lone number in an answer is read by the first of them.
    pub(super) limits: SmallVec<[Limit; 1]>,
    /// The cost of an admission.
    pub(super) cost: u64,
    block: BlockDuration,
    reserves: Reserves,
}

/// A question of a call: about one of its keys, by the index from 1, for a number of callers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallQuestion<'a> {
    pub(crate) question: &'a Question,
    pub(crate) key: u8,
    pub(crate) callers: u16,
}

/// A key, and a question about it.
pub(crate) type KeyQuestion<'a> = (&'a [u8], Arc<Question>);

thread_local! {
    /// The last charge of this thread by the server's clock: most often the next one is equal.
    static LAST: RefCell<Option<Arc<Question>>> = const { RefCell::new(None) };
}

impl Question {
    pub(crate) fn new(operation: Operation, request: &Request<'_>, now: Option<u64>) -> Arc<Self> {
        if !matches!(operation, Operation::Acquire) || now.is_some() || request.has_calendar() {
            return Arc::new(Self::written(operation, request, now));
        }
        LAST.with_borrow_mut(|last| match last {
            Some(last) if last.charges(request) => Arc::clone(last),
            _ => Arc::clone(last.insert(Arc::new(Self::written(operation, request, now)))),
        })
    }

    /// `true` if this is the charge of this request.
    fn charges(&self, request: &Request<'_>) -> bool {
        let Some(subject) = &self.subject else {
            return false;
        };
        (subject.algorithm, subject.cost, subject.reserves)
            == (request.algorithm(), request.cost(), request.reserves)
            && subject.block == request.block
            && *subject.limits == *request.limits()
    }

    /// `true` if this charges admitted calls. Callers of a key with equal charges share a question,
    /// and are decided one after the other.
    pub(crate) fn is_charge(&self) -> bool {
        matches!(&self.subject, Some(subject) if matches!(subject.operation, Operation::Acquire))
    }

    /// `true` if this gives back units taken ahead, which must be sent on the current connection:
    /// the next one may lead to another server.
    pub(crate) fn gives_back(&self) -> bool {
        let subject = self.subject.as_ref();
        subject.is_some_and(|subject| matches!(subject.operation, Operation::GiveBack(_)))
    }

    fn written(operation: Operation, request: &Request<'_>, now: Option<u64>) -> Self {
        let (algorithm, limits, block) = (request.algorithm(), request.limits(), request.block);
        let mut question = Self {
            script: Script::of(algorithm),
            now,
            subject: Some(LimitsSubject {
                operation,
                algorithm,
                limits: SmallVec::from_slice(limits),
                cost: request.cost(),
                block,
                reserves: request.reserves,
            }),
            bytes: Vec::with_capacity(96),
        };
        question.text(match (operation, request.reserves) {
            (Operation::Acquire, Reserves::Nothing) => "acquire",
            (Operation::Acquire, Reserves::Cost) => "reserve",
            (Operation::Acquire, Reserves::Estimate) => "estimate",
            (Operation::Peek, _) => "peek",
            (Operation::Offend, _) => "offend",
            (Operation::Settle(..), _) => "settle",
            (Operation::Block(_), _) => "block",
            (Operation::Unblock, _) => "unblock",
            (Operation::Grant(_), _) => "grant",
            // A bucket knows what was taken ahead of it; else it is a charge as any other.
            (Operation::GiveBack(_), _) if algorithm.has_burst() => "return",
            (Operation::Refund(_) | Operation::GiveBack(_), _) => "refund",
        });
        question.doubles([request.cost()]);
        let count = u8::try_from(limits.len());
        debug_assert!(
            count.is_ok_and(|count| count > 0),
            "a request has 1 to 8 limits"
        );
        question.bytes.push(count.unwrap_or(u8::MAX));
        question.doubles([block.first_us(), block.longest_us()]);
        for limit in limits {
            question.limit(algorithm, limit);
        }
        match operation {
            Operation::Acquire | Operation::Peek | Operation::Offend | Operation::Unblock => {}
            Operation::Refund(ticket) => question.doubles([ticket]),
            Operation::Settle(ticket, actual) => {
                let by_count = request.reserves == Reserves::Cost;
                question.doubles([
                    ticket,
                    actual,
                    by_count.into(),
                    request.is_sent_again().into(),
                ]);
            }
            Operation::Block(duration) => question.doubles([duration]),
            Operation::Grant(lease) => question.doubles([lease]),
            Operation::GiveBack(Granted {
                units,
                ticket,
                lease,
            }) => question.doubles([ticket, units, lease]),
        }
        question
    }

    /// A question about the permit of a call in flight, which is the first of `permits`; the others
    /// are released in the same step.
    pub(crate) fn of_permit(
        operation: &str,
        numbers: [u64; 2],
        permits: &[String],
        now: Option<u64>,
    ) -> Arc<Self> {
        let [max, lease_us] = numbers;
        let mut question = Self {
            script: Script::permits(),
            now,
            subject: None,
            bytes: Vec::with_capacity(96),
        };
        question.text(operation);
        question.doubles([1]);
        question.bytes.push(1);
        question.doubles([0, 0, max, lease_us]);
        let count = u16::try_from(permits.len());
        debug_assert!(count.is_ok(), "a call carries at most 64 permits along");
        question
            .bytes
            .extend_from_slice(&count.unwrap_or(u16::MAX).to_le_bytes());
        for permit in permits {
            question.text(permit);
        }
        Arc::new(question)
    }

    /// `true` if one call can answer both. If they have times of their own, it takes the later one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.script.number == other.script.number && self.bytes == other.bytes)
    }

    /// Keeps the later of two equal questions.
    pub(crate) fn keep_later(kept: &mut Arc<Self>, other: &Arc<Self>) {
        if other.now > kept.now {
            *kept = Arc::clone(other);
        }
    }

    /// The entries that it may add to a log, which keep the server busy: a call adds a limited
    /// number.
    pub(crate) fn weight(&self) -> u64 {
        match &self.subject {
            Some(subject) if subject.algorithm.row().is_log => {
                let actual = match subject.operation {
                    Operation::Settle(_, actual) => actual.min(Algorithm::MOST_IN_LOG),
                    _ => 1,
                };
                subject.cost.max(actual)
            }
            Some(_) => 0,
            // It keeps the server as busy as an entry of a log does.
            None => 1,
        }
    }

    fn limit(&mut self, algorithm: Algorithm, limit: &Limit) {
        // A limit of 0 is never asked whether it admits, only reset and the like; the scripts
        // divide by `max`.
        let max = limit.max().max(1);
        if let Some(calendar) = limit
            .by_calendar()
            .filter(|_| algorithm == Algorithm::FixedWindow)
        {
            let system = || u64::try_from(SystemClock.now().as_micros()).unwrap_or(u64::MAX);
            let [_, this, following] = calendar.instants(self.now.unwrap_or_else(system));
            self.doubles([max]);
            self.bytes
                .extend_from_slice(&(-double(limit.longest_us())).to_le_bytes());
            self.doubles([this, following]);
        } else {
            self.doubles([max, limit.window_us()]);
        }
        if algorithm.has_burst() {
            self.doubles([limit.capacity().max(1)]);
        }
    }

    fn text(&mut self, text: &str) {
        let length = u8::try_from(text.len());
        debug_assert!(length.is_ok(), "names and permits are short");
        self.bytes.push(length.unwrap_or_default());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn doubles<const N: usize>(&mut self, numbers: [u64; N]) {
        self.bytes.extend_from_slice(
            numbers
                .map(|number| double(number).to_le_bytes())
                .as_flattened(),
        );
    }
}

/// A number as the scripts count: exact up to 2⁵³, and no number here is larger.
#[allow(
    clippy::cast_precision_loss,
    reason = "counts are below 2^52, and so are times"
)]
pub(super) fn double(number: u64) -> f64 {
    number as f64
}

/// The time of a store's own clock, in microseconds; `None` for the server's.
///
/// # Errors
///
/// `Misconfigured` if the time is so late that a script could not add a window exactly.
pub(crate) fn own_time(clock: Option<&dyn Clock>) -> Result<Option<u64>, StoreError> {
    let Some(clock) = clock else { return Ok(None) };
    let now = clock.now().as_micros();
    match u64::try_from(now) {
        Ok(now)
            if u128::from(now) + Limit::MAX_WINDOW.as_micros() <= u128::from(Limit::MAX_COUNT) =>
        {
            // 0 stands for the server's clock.
            Ok(Some(now.max(1)))
        }
        _ => Err(StoreError::misconfigured(
            "the clock of the Redis store is more than 142 years past its start",
        )),
    }
}

//! [`Store`]: where limits live. One trait, so that a backend is one type.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::limit::{Limit, MAX_WINDOW};
use crate::rule::Algorithm;

pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

pub use crate::error::{StoreError, StoreErrorKind};

/// A place that keeps the state of limits and decides on it.
///
/// # Contract
///
/// For every key on its own:
///
/// 1. **Atomic.** Two calls on one key are decided one after the other, wherever they come from.
/// 2. **Exact.** With [`Algorithm::SlidingWindow`], what was admitted in any `(t − window, t]` is at most `max`; a slot
///    used at `t` is free at `t + window`. Each call is held against the `max` it brings.
/// 3. **A refusal consumes nothing and writes nothing.** Several limits are all looked at before any is charged.
/// 4. **The clock is the store's**, in microseconds. A clock that steps back never admits more, and never keeps a key
///    longer than its window from then on.
/// 5. **Everything expires**: nothing outlives the longest window by itself.
/// 6. [`Verdict::retry_after`] is the earliest moment at which the same request would be admitted if nobody else
///    came, and [`Verdict::remaining`] is never too high.
///
/// The conformance suite (feature `testkit`) is this contract as tests: run it on your store with
/// `ratelimit_runtime::conformance!`.
///
/// Requests that weigh more than a limit never reach a store, nor do limits of 0.
pub trait Store: Send + Sync + 'static {
    /// Decides, and charges the cost if it admits.
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict>;

    /// Decides as [`acquire`](Self::acquire) would, and charges nothing.
    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict>;

    /// Forgets everything about the key; says whether there was anything.
    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool>;

    /// Whether [`acquire_all`](Self::acquire_all) decides these requests in one step. Where it does not, a limiter asks
    /// one after the other, and gives back what it has charged when one refuses, fails, or the caller gives up; a
    /// process that dies in between leaves it charged until it expires.
    fn decides_together(&self, requests: &[Request<'_>]) -> bool {
        let _ = requests;
        false
    }

    /// Decides several requests together: all of them are charged, or none. Gives one verdict for each, in order; they
    /// are charged if all of them say `allowed`.
    ///
    /// As provided, it charges one after the other, and gives back through [`refund`](Self::refund) what it has
    /// charged when a later one refuses.
    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        Answer::later(one_by_one(self, requests))
    }

    /// Gives back what an admission was charged: the request's cost, under the [`ticket`](Verdict::ticket) of its
    /// verdict. Says whether there was anything left to give back. Never creates a key, and never frees more than
    /// was taken.
    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        let _ = (request, ticket);
        Answer::ready(Err(StoreError::unsupported("this store cannot give back what was charged")))
    }

    /// Turns an admission that was [held](Request::is_held) into an ordinary one. Says whether it was there.
    fn commit<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        let _ = (request, ticket);
        Answer::ready(Err(StoreError::unsupported("this store does not tell reservations apart")))
    }

    /// Refuses everything for the key until `duration` has passed, in place of an earlier ban.
    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        let _ = (request, duration);
        Answer::ready(Err(StoreError::unsupported("this store has no bans")))
    }

    /// Ends a ban, and leaves what was charged as it is. Says whether there was one.
    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        let _ = request;
        Answer::ready(Err(StoreError::unsupported("this store has no bans")))
    }

    /// Whether the store can decide requests like this one at all; asked without a key, for each policy, before a
    /// limiter uses it. A store that answers `Ok` may still refuse a request for its cost or for being held.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unsupported`], with what to choose instead.
    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let _ = request;
        Ok(())
    }

    /// Resolves when the store can serve, or says why it never will. It may wait as long as it takes.
    fn ready(&self) -> Answer<'_, ()> {
        Answer::ready(Ok(()))
    }
}

/// Charges one request after the other, and gives back what was charged if a later one refuses.
pub(crate) async fn one_by_one<S: Store + ?Sized>(
    store: &S,
    requests: &[Request<'_>],
) -> Result<Vec<Verdict>, StoreError> {
    let mut verdicts = Vec::with_capacity(requests.len());
    let mut refused = false;
    for request in requests {
        // Once one has refused, the others are asked how long they would.
        let verdict = if refused { store.peek(*request).await? } else { store.acquire(*request).await? };
        refused |= !verdict.allowed;
        verdicts.push(verdict);
    }
    if refused {
        for (request, verdict) in requests.iter().zip(&verdicts) {
            if verdict.ticket != 0 {
                store.refund(*request, verdict.ticket).await?;
            }
        }
    }
    Ok(verdicts)
}

impl fmt::Debug for dyn Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

/// One question to a store: a key, the limits that hold for it, and what the call weighs.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Request<'a> {
    key: &'a [u8],
    rule_len: usize,
    algorithm: Algorithm,
    limits: &'a [Limit],
    cost: u64,
    block_us: u64,
    held: bool,
    unit_log: bool,
}

impl<'a> Request<'a> {
    /// A request by hand, as tests of a store make it. `limits` must not be empty.
    #[must_use]
    pub fn new(key: &'a [u8], algorithm: Algorithm, limits: &'a [Limit]) -> Self {
        Self { key, rule_len: 0, algorithm, limits, cost: 1, block_us: 0, held: false, unit_log: false }
    }

    /// The same request with another cost.
    #[must_use]
    pub fn with_cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The same request with a ban for whoever it refuses; a longer one than [`MAX_WINDOW`] means that.
    #[must_use]
    pub fn with_block(mut self, block: Duration) -> Self {
        self.block_us = u64::try_from(block.min(MAX_WINDOW).as_micros()).unwrap_or(0);
        self
    }

    /// The same request as a reservation, to be settled by [`Store::commit`] or [`Store::refund`].
    #[must_use]
    pub fn held(mut self) -> Self {
        self.held = true;
        self
    }

    /// The same request, of a rule whose calls all cost 1 under limits of at most 128.
    #[must_use]
    pub fn with_unit_log(mut self, unit_log: bool) -> Self {
        self.unit_log = unit_log;
        self
    }

    pub(crate) fn with_rule_len(mut self, rule_len: usize) -> Self {
        self.rule_len = rule_len;
        self
    }

    /// The whole key of the bucket: prefix, format, algorithm, windows, name, and the rendered key. It is unique, and
    /// never holds a brace, so it spreads over a cluster's slots.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The part of [`key`](Self::key) that all keys of this rule share.
    #[must_use]
    pub fn rule_key(&self) -> &'a [u8] {
        self.key.get(..self.rule_len).unwrap_or_default()
    }

    /// How the limits are kept.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The limits, all to be met. Their windows are fixed for a key; their `max` may differ from call to call.
    #[must_use]
    pub fn limits(&self) -> &'a [Limit] {
        self.limits
    }

    /// What the call weighs; at most the smallest `max`.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// For how long a refusal by the limits bans the key; zero for no ban. A refusal by a ban does not extend it, nor
    /// does one that would have been an admission without the open reservations.
    #[must_use]
    pub fn block(&self) -> Duration {
        Duration::from_micros(self.block_us)
    }

    pub(crate) fn block_us(&self) -> u64 {
        self.block_us
    }

    /// Whether an admission is only a reservation, which counts until it is settled.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Whether every call of this rule costs 1 and its limits are short, so that its log may be kept in a form that is
    /// good for just that. It is the same for all requests on one key.
    #[must_use]
    pub fn is_unit_log(&self) -> bool {
        self.unit_log
    }

    /// The longest that anything written for this request may live: the longest window; two for a sliding counter;
    /// what a full bucket takes to drain.
    #[must_use]
    pub fn horizon(&self) -> Duration {
        Duration::from_micros(self.horizon_us())
    }

    pub(crate) fn horizon_us(&self) -> u64 {
        self.limits.iter().map(|limit| self.algorithm.horizon_us(limit)).max().unwrap_or(0)
    }
}

impl fmt::Debug for Request<'_> {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("rule", &String::from_utf8_lossy(self.rule_key()))
            .field("algorithm", &self.algorithm)
            .field("limits", &self.limits)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// What a store answers to [`Store::acquire`] and [`Store::peek`]. All times are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Verdict {
    /// Whether the request is admitted.
    pub allowed: bool,
    /// Which limit decided: of those that refuse the one with the longest wait; else the one with the least left.
    pub limit_index: usize,
    /// What is left of that limit, after the charge.
    pub remaining: u64,
    /// Zero when admitted; else when this request would be admitted by all its limits.
    pub retry_after_us: u64,
    /// When the deciding limit is whole again.
    pub reset_after_us: u64,
    /// What names this admission to [`Store::refund`]; 0 if nothing was charged.
    pub ticket: u64,
    /// Whether a ban refused, and not a limit.
    pub banned: bool,
}

impl Verdict {
    /// The verdict on a request of one limit.
    pub fn new(allowed: bool, remaining: u64, retry_after_us: u64, reset_after_us: u64) -> Self {
        Self { allowed, limit_index: 0, remaining, retry_after_us, reset_after_us, ticket: 0, banned: false }
    }

    /// The same, decided by the limit with this index.
    pub fn by_limit(mut self, limit_index: usize) -> Self {
        self.limit_index = limit_index;
        self
    }

    /// The same, naming the admission.
    pub fn with_ticket(mut self, ticket: u64) -> Self {
        self.ticket = ticket;
        self
    }

    /// The same, said by a ban.
    pub fn by_ban(mut self) -> Self {
        self.banned = true;
        self
    }

    /// [`retry_after_us`](Self::retry_after_us) as a duration.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        Duration::from_micros(self.retry_after_us)
    }

    /// What is left.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }
}

/// A store's answer: at once, or as a future. A store in memory never allocates for it.
#[must_use = "an answer does nothing until it is awaited"]
pub struct Answer<'a, T>(Repr<'a, T>);

enum Repr<'a, T> {
    Now(Option<Result<T, StoreError>>),
    Later(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<'a, T> Answer<'a, T> {
    /// An answer that is known.
    pub fn ready(result: Result<T, StoreError>) -> Self {
        Self(Repr::Now(Some(result)))
    }

    /// An answer that has to be waited for. The limiter drops it at the deadline.
    pub fn later(future: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        Self(Repr::Later(Box::pin(future)))
    }

    /// The answer if it is known already, else the future to wait for.
    pub(crate) fn now(self) -> Result<Result<T, StoreError>, Self> {
        match self.0 {
            Repr::Now(Some(result)) => Ok(result),
            repr => Err(Self(repr)),
        }
    }
}

impl<T: Unpin> Future for Answer<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Repr::Now(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Repr::Later(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for Answer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Repr::Now(_) => "Answer::Ready",
            Repr::Later(_) => "Answer::Later",
        })
    }
}

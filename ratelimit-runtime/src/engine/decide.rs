//! The stages of a call. [`decide_now`] gives the outcome of a check that need not wait;
//! [`decide_later`] awaits that of one check; [`acquire`] awaits that of a stack, or of one check
//! that waits for its turn, reserves its cost or asks for a permit.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::attempt::{self, Attempted};
use super::charge::{Charge, Reservations};
use super::check::{Check, Conclusion};
use super::outage::Refused;
use super::part::Part;
use super::permit::CallPermits;
use super::state::Engine;
use super::waiting;
use crate::decision::Decision;
use crate::error::RateLimitError;
use crate::pace;
use crate::store::BuiltInStore as _;

/// Decides a check without waiting: asks a store in memory, and looks up whether any other store is
/// known to refuse. If the check has to wait, charges nothing and gives the result of `later`.
#[allow(
    clippy::inline_always,
    reason = "a call to it would cost more than what most checks need of it"
)]
#[inline(always)]
pub(crate) fn decide_now<T: Conclusion>(
    engine: &Engine,
    check: &Check<'_>,
    later: impl FnOnce() -> T,
) -> T {
    if check.waits() {
        return later();
    }
    if let Err(error) = check.ensure_supported() {
        return T::of(check.conclude(Err(error)));
    }
    if engine.fallback.may_block()
        && let Some(blocked) = engine.blocked(check)
    {
        return T::of(check.conclude(Ok(blocked)));
    }
    match &engine.store.decide_at_once(&check.request) {
        Some(verdict) => check.conclude_verdict(verdict),
        None => later(),
    }
}

/// Decides a check that [`decide_now`] could not decide, and waits for the store's answer.
pub(crate) async fn decide_later(part: &Part) -> Result<Decision, RateLimitError> {
    let (engine, check) = (&part.engine, part.check());
    if check.waits() {
        return Box::pin(acquire([part.clone()])).await?.decision();
    }
    let time = part.time(Instant::now());
    let mut answer = engine.store.acquire(time.of(check.request));
    let outcome = match engine.answered(time, &mut answer).await {
        Ok(verdict) => check.conclude_verdict(&verdict),
        Err(error) => check.conclude(attempt::decide_failed(part, error)),
    };
    cooperate(outcome).await
}

/// The decisions, charges and permits of an admitted call.
pub(crate) struct Admitted {
    /// The decision on each part of the stack.
    pub(crate) decisions: SmallVec<[Decision; 1]>,
    /// The charge of each part, if it is settled when the call is over.
    pub(crate) charges: SmallVec<[Option<Charge>; 1]>,
    pub(crate) permits: CallPermits,
}

impl Admitted {
    /// The decision on the first part.
    pub(crate) fn decision(&self) -> Result<Decision, RateLimitError> {
        let first = self.decisions.first().copied();
        debug_assert!(first.is_some(), "a stack has a part");
        first.ok_or_else(|| RateLimitError::misconfigured("nothing was asked"))
    }

    /// The reservations and the permits of `N` checks, of which only some were made: each
    /// reservation has the index of its check.
    pub(crate) fn reserved<const N: usize>(
        self,
        is_made: [bool; N],
    ) -> (Reservations<N>, CallPermits) {
        let made = is_made.iter().filter(|is_made| **is_made).count();
        debug_assert_eq!(
            made,
            self.charges.len(),
            "each check that is made is a part"
        );
        let mut made = self.charges.into_iter();
        let reserved = is_made.map(|is_made| is_made.then(|| made.next()).flatten().flatten());
        (Reservations(reserved), self.permits)
    }
}

/// Waits until a stack is decided, so that all of it is charged, or nothing. Waits for room and
/// permits for as long as the rules that refuse allow.
pub(crate) async fn acquire(
    stack: impl IntoIterator<Item = Part>,
) -> Result<Admitted, RateLimitError> {
    let stack: Arc<[Part]> = stack.into_iter().collect();
    cooperate(conclude(&stack, waiting::acquire(&stack).await)).await
}

/// Observes the decisions on all parts, or the refusal.
fn conclude(stack: &[Part], outcome: Attempted) -> Result<Admitted, RateLimitError> {
    match outcome {
        Ok(admissions) => {
            let (mut decisions, mut charges) = (SmallVec::new(), SmallVec::new());
            let mut permits = Vec::new();
            for (part, admission) in stack.iter().zip(admissions) {
                decisions.push(part.check().conclude(admission.decided)?);
                charges.push(admission.charge);
                permits.extend(admission.permit);
            }
            Ok(Admitted {
                decisions,
                charges,
                permits: CallPermits {
                    _open: permits.into_boxed_slice(),
                },
            })
        }
        Err(Refused { by, error }) => {
            debug_assert!(by < stack.len(), "a part of the stack refuses");
            let part = stack.get(by);
            let concluded = part.map(|part| part.check().conclude(Err(error.clone())));
            let refusal = concluded.and_then(Result::err);
            debug_assert!(refusal.is_some(), "a part in shadow mode refuses nothing");
            Err(refusal.unwrap_or(error))
        }
    }
}

/// Returns `outcome`. If it is an error, and refusals have kept the thread, other tasks run first.
pub(crate) async fn cooperate<T>(outcome: Result<T, RateLimitError>) -> Result<T, RateLimitError> {
    give_way_if(outcome.is_err()).await;
    outcome
}

/// [`cooperate`]s with the outcome of a call by hand.
pub(crate) async fn cooperating<T>(
    call: impl Future<Output = Result<T, RateLimitError>>,
) -> Result<T, RateLimitError> {
    cooperate(call.await).await
}

/// Lets other tasks run, if refusals such as this have kept the thread.
pub(crate) async fn give_way_if(is_refused: bool) {
    if is_refused && pace::is_due() {
        pace::give_way().await;
    }
}

//! What becomes of a charge once its call is over: a reservation is committed or released, a charge
//! given back.
//!
//! The call does not wait for this. A store in memory does it at once; for others a task of the
//! current runtime does it, once the store serves. There are at most [`MAX_OPEN`] such tasks per
//! process; beyond, and where there is no runtime, a charge stays as it is, and counts until it
//! expires.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::call::OwnedCall;
use super::time_limit::TimeLimit;
use crate::decision::{Decision, Receipt};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::observe;
use crate::real_time;
use crate::rule::Limit;
use crate::store::{Answer, Feature, Health, Store as _};

const MAX_OPEN: usize = 10_000;
/// Between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// How a charge ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// A reservation becomes a charge of its cost.
    Commit,
    /// A reservation becomes a charge of this, which the call did cost.
    CommitActual(u64),
    /// A reservation is given back.
    Release,
    /// A charge is given back.
    Refund,
}

/// Gives back what was charged.
pub(super) fn give_back(call: &OwnedCall, charge: Receipt) {
    complete(call, charge, if call.reserves() { Completion::Release } else { Completion::Refund }, Instant::now());
}

/// Gives back a charge by hand; says whether anything of it was left.
pub(crate) async fn refund(call: &OwnedCall, admission: &Decision) -> Result<bool, RateLimitError> {
    call.engine.capabilities.require(call.check().terms.algorithm(), Feature::Refund)?;
    let Some(mut answer) =
        call.charged_by(admission.charge(), |store, request, ticket| store.refund(request, ticket))?
    else {
        return Ok(false);
    };
    let limit = TimeLimit::new(call.timeout());
    let requests = [call.check().key_request()?];
    call.engine.await_within(limit, &requests, &mut answer).await.map_err(Into::into)
}

/// A charge that is reserved.
#[derive(Debug)]
struct Reserved {
    call: OwnedCall,
    decision: Decision,
    /// When the store was first asked for it.
    since: Instant,
}

/// Reservations of one call, to be committed or released by what it returns.
///
/// If they are dropped before, because the call was cancelled or panicked, they count.
#[derive(Debug)]
#[must_use = "dropping it counts the call"]
pub struct Reservations<const N: usize> {
    reserved: [Option<Box<Reserved>>; N],
}

impl<const N: usize> Reservations<N> {
    /// Those of these calls that have reserved something, each in its place.
    pub(super) fn new(decided: [Option<(OwnedCall, Decision)>; N], since: Instant) -> Self {
        Self {
            reserved: decided.map(|decided| {
                let (call, decision) = decided?;
                call.reserves().then(|| Box::new(Reserved { call, decision, since }))
            }),
        }
    }

    /// The decisions on those that have reserved something.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.reserved.iter().flatten().map(|reserved| &reserved.decision)
    }

    /// Ends them, each as it is said in its place.
    pub fn complete(mut self, completions: [Completion; N]) {
        for (reserved, completion) in self.reserved.iter_mut().zip(completions) {
            if let Some(reserved) = reserved.take() {
                reserved.complete(completion);
            }
        }
    }
}

impl Reserved {
    fn complete(&self, completion: Completion) {
        complete(&self.call, self.decision.charge(), completion, self.since);
    }
}

/// A panic leaves them to be dropped, and what they share with others is behind locks.
impl<const N: usize> UnwindSafe for Reservations<N> {}
impl<const N: usize> RefUnwindSafe for Reservations<N> {}

impl<const N: usize> Drop for Reservations<N> {
    fn drop(&mut self) {
        for reserved in self.reserved.iter_mut().filter_map(Option::take) {
            reserved.complete(Completion::Commit);
        }
    }
}

/// Completes a charge that is no older than `since`.
fn complete(call: &OwnedCall, charge: Receipt, completion: Completion, since: Instant) {
    let Ok(Some(answer)) = ask(call, charge, completion) else { return };
    match answer.known() {
        Ok(Ok(_)) => {}
        Ok(Err(error)) if error.kind() == StoreErrorKind::Unavailable => later(call, charge, completion, since),
        Ok(Err(error)) => report(call, completion, &error),
        // An answer that was not polled has done nothing: see `Answer`.
        Err(unknown) => {
            drop(unknown);
            later(call, charge, completion, since);
        }
    }
}

fn later(call: &OwnedCall, charge: Receipt, completion: Completion, since: Instant) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return report(call, completion, &StoreError::unavailable("there is no tokio runtime to settle it on"));
    };
    let Some(open) = Open::new() else {
        return report(call, completion, &StoreError::unavailable("too many charges are being settled"));
    };
    let call = call.clone();
    runtime.spawn(async move {
        if let Err(error) = complete_while_it_counts(&call, charge, completion, since).await {
            report(&call, completion, &error);
        }
        drop(open);
    });
}

/// Waits until the store serves, and completes the charge, unless it has expired by then.
///
/// Without an answer it is not known whether that was done. Then it is done again only where the
/// ticket names an entry, which cannot be completed twice: in the log of a sliding window. Of what
/// it did cost this holds only until the entry is older than the window: after that, an actual cost
/// is charged whenever it is sent.
async fn complete_while_it_counts(
    call: &OwnedCall,
    charge: Receipt,
    completion: Completion,
    since: Instant,
) -> Result<(), StoreError> {
    let (start, mut pause) = (Instant::now(), FIRST_PAUSE);
    let terms = call.check().terms;
    let counts = terms.limits().iter().map(Limit::window).max().unwrap_or_default();
    let names_an_entry = terms.algorithm().row().is_log;
    loop {
        let Ok(request) = call.check().key_request() else { return Ok(()) };
        if call.engine.store.health(&request) != Health::Up {
            // Only for the part of the store that has the key: another one may be away for long.
            let mut ready = call.engine.store.ready_for(request);
            ready.within(TimeLimit::after(start, counts), drop).await?;
        }
        let Ok(Some(mut answer)) = ask(call, charge, completion) else { return Ok(()) };
        let Err(error) = answer.within(TimeLimit::new(call.timeout()), drop).await else { return Ok(()) };
        let may_pass =
            matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::TimedOut | StoreErrorKind::Full);
        let expires = if let Completion::CommitActual(_) = completion {
            since.elapsed() + call.timeout()
        } else {
            start.elapsed()
        };
        if !may_pass || !names_an_entry || expires + pause >= counts {
            return Err(error);
        }
        real_time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn ask(call: &OwnedCall, charge: Receipt, completion: Completion) -> Result<Option<Answer<'_, bool>>, RateLimitError> {
    call.charged_by(charge, |store, request, ticket| match completion {
        Completion::Commit => store.commit(request, ticket),
        Completion::CommitActual(cost) => {
            let name = call.check().name;
            store.commit_actual(request, ticket, cost).map(move |dropped| {
                observe::cost_dropped(name, dropped);
                true
            })
        }
        Completion::Release => store.release(request, ticket),
        Completion::Refund => store.refund(request, ticket),
    })
}

fn report(call: &OwnedCall, completion: Completion, error: &StoreError) {
    observe::log::unsettled(call.check().name.as_str(), &completion, error);
}

/// A place among the [`MAX_OPEN`].
struct Open;

impl Open {
    fn new() -> Option<Self> {
        if OPEN.fetch_add(1, Ordering::Relaxed) < MAX_OPEN {
            return Some(Self);
        }
        OPEN.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

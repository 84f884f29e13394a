//! Ends the charge of a call once that is over: a reservation is committed or released, a charge
//! given back.
//!
//! The call does not wait for this. A store in memory does it at once; for others a task of the
//! runtime that the call was made on does it, once the store serves. There are at most
//! 10,000 such tasks for a limiter; beyond, and where that runtime has
//! ended, a charge stays as it is, and counts until it expires.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::call::OwnedCall;
use super::state::Engine;
use crate::decision::{Decision, Receipt};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::observe;
use crate::real_time;
use crate::rule::Limit;
use crate::store::{Answer, Feature, Health, Store};

/// The first pause between two attempts; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How a charge ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// A reservation becomes a charge of its cost.
    Commit,
    /// A reservation becomes a charge of this actual cost.
    CommitActual(u64),
    /// A reservation is given back.
    Release,
    /// A charge is given back.
    Refund,
}

/// Gives back a charge.
pub(super) fn give_back(call: &OwnedCall, receipt: Receipt) {
    let completion = if call.reserves() {
        Completion::Release
    } else {
        Completion::Refund
    };
    if receipt != Receipt::None {
        Charge::new(call.clone(), receipt, Instant::now()).complete(completion);
    }
}

impl Engine {
    /// Returns once all settlements that calls have left behind are done.
    pub(crate) async fn settled(&self) {
        self.settlements.ended().await;
        // A settlement that is given up is reported where that happens.
        let _ = self.store.innermost().settled().await;
    }

    /// # Errors
    ///
    /// `Unavailable` after `timeout`.
    pub(crate) async fn settled_within(&self, timeout: Duration) -> Result<(), RateLimitError> {
        real_time::timeout(timeout.min(Limit::MAX_WINDOW), self.settled())
            .await
            .map_err(|_| {
                let open = match self.settlements.open() {
                    0 => "permits".to_owned(),
                    open => format!("{open} settlements"),
                };
                StoreError::timed_out(format!("{open} were not answered within {timeout:?}")).into()
            })
    }
}

/// Gives back a charge by hand; says whether anything of it was left.
pub(crate) async fn refund(call: &OwnedCall, admission: &Decision) -> Result<bool, RateLimitError> {
    call.require(Feature::Refund)?;
    let Some(mut answer) = ask(call, admission.charge(), Completion::Refund, false)? else {
        return Ok(false);
    };
    let now = Instant::now();
    call.engine
        .await_until(now, call.timeout_at(now), &mut answer)
        .await
        .map_err(Into::into)
}

/// Reservations of one call, to be committed or released according to its return value.
///
/// If they are dropped before, because the call was cancelled or panicked, they count.
#[must_use = "dropping it counts the call"]
pub struct Reservations<const N: usize> {
    reserved: [Option<Box<Charge>>; N],
}

impl<const N: usize> Reservations<N> {
    /// The reservations of these calls, each in its place; none for a call that made none.
    pub(crate) fn new(decided: [Option<(OwnedCall, Decision)>; N], since: Instant) -> Self {
        let reserved = decided.map(|decided| {
            let (call, decision) = decided.filter(|(call, _)| call.reserves())?;
            Some(Box::new(Charge::new(call, decision.charge(), since)))
        });
        Self { reserved }
    }

    /// Ends each reservation by the completion in its place.
    pub fn complete(mut self, completions: [Completion; N]) {
        for (reserved, completion) in self.reserved.iter_mut().zip(completions) {
            if let Some(reserved) = reserved.take() {
                reserved.complete(completion);
            }
        }
    }
}

/// A panic leaves them to be dropped, and state that they share is behind locks.
impl<const N: usize> UnwindSafe for Reservations<N> {}
impl<const N: usize> RefUnwindSafe for Reservations<N> {}

impl<const N: usize> fmt::Debug for Reservations<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reservations(..)")
    }
}

impl<const N: usize> Drop for Reservations<N> {
    fn drop(&mut self) {
        for reserved in self.reserved.iter_mut().filter_map(Option::take) {
            reserved.complete(Completion::Commit);
        }
    }
}

/// The charge of a call.
struct Charge {
    call: OwnedCall,
    receipt: Receipt,
    /// When the store was first asked for it.
    since: Instant,
    /// The runtime that the call was made on.
    runtime: Option<Handle>,
}

impl Charge {
    fn new(call: OwnedCall, receipt: Receipt, since: Instant) -> Self {
        Self {
            call,
            receipt,
            since,
            runtime: Handle::try_current().ok(),
        }
    }

    fn complete(self, completion: Completion) {
        let Ok(Some(answer)) = ask(&self.call, self.receipt, completion, false) else {
            return;
        };
        match answer.known() {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.kind() != StoreErrorKind::Unavailable => {
                self.report(completion, &error)
            }
            // An answer that was not polled has done nothing: see `Answer`.
            unknown => {
                drop(unknown);
                self.complete_later(completion);
            }
        }
    }

    fn complete_later(self, completion: Completion) {
        // It may be dropped where there is no runtime.
        let Some(runtime) = Handle::try_current().ok().or_else(|| self.runtime.clone()) else {
            let error = StoreError::unavailable("there is no tokio runtime to settle it on");
            return self.report(completion, &error);
        };
        if !self.call.engine.settlements.begin() {
            return self.report(
                completion,
                &StoreError::unavailable("too many charges are being settled"),
            );
        }
        let mut open = Open {
            charge: self,
            completion,
            is_over: false,
        };
        runtime.spawn(async move {
            let completed = open.charge.complete_once_served(completion).await;
            open.is_over = true;
            if let Err(error) = completed {
                open.charge.report(completion, &error);
            }
        });
    }

    /// Waits until the store serves, and completes the charge. No timeout gives it up: the store
    /// answers, or its connection ends.
    ///
    /// A completion without an answer may have been carried out. It is sent again only where the
    /// ticket names entries, which cannot be completed twice: in the log of a sliding window,
    /// within the window.
    async fn complete_once_served(&self, completion: Completion) -> Result<(), StoreError> {
        let (mut pause, mut is_sent_again) = (FIRST_PAUSE, false);
        let (call, terms) = (&self.call, &self.call.terms);
        let window = terms
            .limits()
            .iter()
            .map(Limit::window)
            .max()
            .unwrap_or_default();
        let names_entries = terms.algorithm().row().is_log;
        loop {
            let Ok(request) = call.key_request() else {
                return Ok(());
            };
            if call.engine.store.innermost().health(&request) != Health::Up {
                // Only for the part of the store that has the key: another one may be away for long.
                call.engine
                    .store
                    .innermost()
                    .ready_for(Some(request))
                    .await?;
            }
            let counts = self.since.elapsed() < window;
            let charges = completion
                .actual(request.cost())
                .is_some_and(|actual| actual > 0);
            if !counts && !charges {
                return Ok(());
            }
            let Ok(Some(answer)) = ask(call, self.receipt, completion, is_sent_again) else {
                return Ok(());
            };
            let Err(error) = answer.await else {
                return Ok(());
            };
            let may_pass = matches!(
                error.kind(),
                StoreErrorKind::Unavailable | StoreErrorKind::TimedOut | StoreErrorKind::Full
            );
            if !may_pass || (error.is_lost() && !(names_entries && counts)) {
                return Err(error);
            }
            is_sent_again |= error.is_lost();
            real_time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn report(&self, completion: Completion, error: &StoreError) {
        observe::log::unsettled(self.call.name.as_str(), &completion, error);
    }
}

/// Asks the store that made the charge, be it the engine's or the fallback, whether there was
/// anything of it; `None` if nothing was charged.
fn ask(
    call: &OwnedCall,
    charge: Receipt,
    completion: Completion,
    is_sent_again: bool,
) -> Result<Option<Answer<'_, bool>>, RateLimitError> {
    let (store, ticket): (&dyn Store, u64) = match charge {
        Receipt::None => return Ok(None),
        Receipt::Store(ticket) => (&*call.engine.store, ticket),
        Receipt::Fallback(ticket) => (call.engine.fallback.store(), ticket),
    };
    let request = call.key_request()?;
    let request = if is_sent_again {
        request.sent_again()
    } else {
        request
    };
    let Some(actual) = completion.actual(request.cost()) else {
        return Ok(Some(store.refund(request, ticket)));
    };
    let name = call.name;
    Ok(Some(store.settle(request, ticket, actual).map(
        move |settled| {
            observe::cost_dropped(name, settled.dropped);
            settled.was_open
        },
    )))
}

impl Completion {
    /// The cost that is charged in place of the reservation; `None` for a refund.
    fn actual(self, reserved: u64) -> Option<u64> {
        match self {
            Self::Commit => Some(reserved),
            Self::CommitActual(cost) => Some(cost),
            Self::Release => Some(0),
            Self::Refund => None,
        }
    }
}

/// A settlement among those of its limiter. One whose task is dropped, because its runtime ended,
/// is reported.
struct Open {
    charge: Charge,
    completion: Completion,
    is_over: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.is_over {
            self.charge.report(
                self.completion,
                &StoreError::unavailable("its tokio runtime has ended"),
            );
        }
        self.charge.call.engine.settlements.end();
    }
}

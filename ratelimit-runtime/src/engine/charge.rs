//! [`Charge`]: the charge of a call, until it is committed, released or refunded.
//!
//! The call does not wait for its charge to end. A store in memory ends it at once; for other
//! stores a task does, once the store serves: on the current runtime or, where there is none or it
//! ends before it runs the task, on that of the call. A limiter has at most 10,000 such tasks that
//! wait for servers that are away, and 10,000 others. Beyond that, or if both runtimes have ended,
//! a charge stays as it is, and counts until it expires.

use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::part::Part;
use super::state::Engine;
use crate::decision::{Decision, Receipt};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::observe;
use crate::pace::{self, Backoff};
use crate::rule::Limit;
use crate::store::{Answer, BuiltInStore as _, Feature, Health, Reserves, Store};

/// The pauses between attempts to end a charge.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

const NO_ROOM: &str = "too many charges are being settled";

/// The end of a reservation or a charge.
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

impl Completion {
    /// The cost charged in place of the reservation; `None` for a refund.
    fn actual(self, reserved: u64) -> Option<u64> {
        match self {
            Self::Commit => Some(reserved),
            Self::CommitActual(cost) => Some(cost),
            Self::Release => Some(0),
            Self::Refund => None,
        }
    }
}

impl Engine {
    /// Gives back units taken ahead, without waiting for the store's answer.
    pub(crate) fn give_back(&self) {
        self.store.give_back();
    }

    /// Waits until the store has done what calls have left behind, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// [`RateLimitError::Unavailable`] if settlements or permits are not done after `timeout`;
    /// `Misconfigured` if some are not done, and the caller cannot wait here.
    pub(crate) async fn settled_within(&self, timeout: Duration) -> Result<(), RateLimitError> {
        let settled = async {
            self.settlements.ended().await;
            // A settlement that is given up is reported where that happens.
            let _ = self.store.settled().await;
        };
        pace::timeout(timeout.min(Limit::MAX_WINDOW), settled)
            .await
            .map_err(|_| {
                if let Err(why) = pace::can_wait() {
                    return StoreError::misconfigured(format!("not all is settled: {why}")).into();
                }
                let open = match self.settlements.open() {
                    0 => "permits or units taken ahead".to_owned(),
                    open => format!("{open} settlements"),
                };
                StoreError::timed_out(format!("{open} were not answered within {timeout:?}")).into()
            })
    }
}

/// Gives back a charge by hand. `true` if a part of it still counted.
pub(crate) async fn refund(part: &Part, admission: &Decision) -> Result<bool, RateLimitError> {
    part.bound.has_no_mistake()?;
    part.bound.require(Feature::Refund)?;
    let now = Instant::now();
    let mut charge = Charge::new(part, Reserves::Nothing, admission, now, None);
    let is_charged = part.bound.terms_hash == admission.terms_hash;
    let Some(open) = charge.0.take().filter(|_| is_charged) else {
        return Ok(false);
    };
    let mut answer = open.ask(false);
    let answer = part.engine.answered(part.time(now), &mut answer).await;
    answer.map_err(Into::into)
}

/// The charge of a call. Dropping it ends it: it is given back, unless its call was admitted.
pub(crate) struct Charge(Option<Box<OpenCharge>>);

impl Charge {
    /// The charge of a part, for which the store was first asked at `since`.
    pub(super) fn new(
        part: &Part,
        reserves: Reserves,
        decision: &Decision,
        since: Instant,
        room: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let open = decision.charge().map(|receipt| {
            let mut part = part.clone();
            part.reserves = reserves;
            Box::new(OpenCharge {
                part,
                receipt,
                since,
                runtime: Handle::try_current().ok(),
                room,
                completion: match reserves {
                    Reserves::Nothing => Completion::Refund,
                    Reserves::Cost | Reserves::Estimate => Completion::Release,
                },
                error: None,
            })
        });
        Self(open)
    }

    /// Ends the charge.
    pub(crate) fn complete(mut self, completion: Completion) {
        if let Some(mut open) = self.0.take() {
            open.completion = completion;
            open.complete(false);
        }
    }

    /// The charge once its call is admitted. If the call `reserves`, it stays open, and from now on
    /// dropping it commits it, because the call was cancelled or panicked. Any other charge counts.
    pub(super) fn admitted(mut self, reserves: bool) -> Option<Self> {
        let mut open = self.0.take()?;
        if reserves {
            // The call may go on for long: it takes room to be settled when it ends.
            open.room = None;
        } else if open.completion == Completion::Refund {
            return None;
        }
        open.completion = Completion::Commit;
        if reserves {
            return Some(Self(Some(open)));
        }
        // The store is asked before the caller is told, so that a refund comes behind the commit.
        open.complete(true);
        None
    }
}

impl Drop for Charge {
    /// Ends the charge. Catches a panic of the application's store or clock: during the panic of a
    /// body it would abort the process.
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            let ends = || open.complete(false);
            // The panic hook reports it, and the charge stays as it is.
            let _ = catch_unwind(AssertUnwindSafe(ends));
        }
    }
}

/// The reservations of one call, to be committed or released according to its return value.
///
/// A reservation that is dropped before, because the call was cancelled or panicked, counts.
#[must_use = "dropping it counts the call"]
pub struct Reservations<const N: usize>(pub(super) [Option<Charge>; N]);

impl<const N: usize> Reservations<N> {
    /// Ends each reservation by the completion with its index.
    pub fn complete(self, completions: [Completion; N]) {
        for (charge, completion) in self.0.into_iter().zip(completions) {
            if let Some(charge) = charge {
                charge.complete(completion);
            }
        }
    }
}

/// A panic leaves reservations to be dropped, and the state they share is behind locks.
impl<const N: usize> UnwindSafe for Reservations<N> {}
impl<const N: usize> RefUnwindSafe for Reservations<N> {}

impl<const N: usize> fmt::Debug for Reservations<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reservations(..)")
    }
}

/// A charge that can be ended.
struct OpenCharge {
    /// The part, with the kind of reservation that was charged.
    part: Part,
    receipt: Receipt,
    /// The time at which the store was first asked for the charge.
    since: Instant,
    /// The runtime on which the call was made.
    runtime: Option<Handle>,
    room: Option<OwnedSemaphorePermit>,
    /// The way in which the charge ends.
    completion: Completion,
    /// The reason why the charge has not ended, once its end has begun; reported when this is
    /// dropped.
    error: Option<StoreError>,
}

impl OpenCharge {
    /// Ends the charge. `asks_first` polls the task once before it is spawned.
    fn complete(mut self: Box<Self>, asks_first: bool) {
        let failed = match self.ask(false).known() {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => Some(error),
            // An answer that was not polled has done nothing: see `Answer`.
            Err(_) => None,
        };
        let is_sent = failed.as_ref().is_some_and(StoreError::is_lost);
        self.error = failed.filter(|error| !self.may_ask_again(error));
        if self.error.is_some() {
            return;
        }
        let failed = |why: &'static str| Some(StoreError::unavailable(why));
        // It may be dropped where there is no runtime, or one without timers.
        let of_call = self.runtime.take();
        let Some(runtime) = pace::runtime().ok().or_else(|| of_call.clone()) else {
            self.error = failed("there is no tokio runtime to settle it on");
            return;
        };
        self.runtime = of_call.filter(|of_call| of_call.id() != runtime.id());
        let settlements = &self.part.engine.settlements;
        let room = self.room.take();
        self.room = room.or_else(|| settlements.try_room(1));
        if self.room.is_none() {
            self.error = failed(NO_ROOM);
            return;
        }
        self.error = failed("its tokio runtime has ended");
        let charge = Some((settlements.begin(), self));
        let mut task = Box::pin(Unbegun { charge, is_sent }.complete());
        // The runtime polls it again, and so sees what has woken it.
        let context = &mut Context::from_waker(Waker::noop());
        if !(asks_first && task.as_mut().poll(context).is_ready()) {
            runtime.spawn(task);
        }
    }

    /// Waits until the store serves, and completes the charge; `is_sent` if that may have been
    /// carried out. There is no timeout: the store answers, or its connection ends.
    async fn complete_once_served(&mut self, is_sent: bool) -> Result<(), StoreError> {
        let (mut pauses, mut is_sent_again, mut has_waited) = (PAUSES, is_sent, false);
        let check = self.part.check();
        let store = &self.part.engine.store;
        loop {
            if store.health(&check.request) != Health::Up {
                if !std::mem::replace(&mut has_waited, true) {
                    self.room = self.part.engine.settlements.try_room_of_waiting();
                    if self.room.is_none() {
                        return Err(StoreError::unavailable(NO_ROOM));
                    }
                }
                // Only for the part of the store that has the key: another may be away for long.
                if let Err(error) = store.ready_for(Some(check.request)).await {
                    // A replica may take over, and a setting be corrected.
                    if !self.counts() {
                        return Err(error);
                    }
                    tokio::time::sleep(pauses.pause()).await;
                    continue;
                }
            }
            let charges = self.completion.actual(check.request.cost());
            if !self.counts() && charges.is_none_or(|actual| actual == 0) {
                return Ok(());
            }
            let Err(error) = self.ask(is_sent_again).await else {
                return Ok(());
            };
            if !self.may_ask_again(&error) {
                return Err(error);
            }
            is_sent_again |= error.is_lost();
            tokio::time::sleep(pauses.pause()).await;
        }
    }

    /// `true` as long as the charge may count: a log forgets it with its window, and sums keep what
    /// is reserved for up to twice as long as anything else.
    fn counts(&self) -> bool {
        let check = self.part.check();
        let window = check.terms.limits().iter().map(Limit::window).max();
        debug_assert!(window.is_some(), "what was charged has a limit");
        let longest = check.request.horizon().max(window.unwrap_or_default());
        let times = if check.terms.algorithm().row().is_log {
            1
        } else {
            2
        };
        self.since.elapsed() < times * longest
    }

    /// `true` if the store may be asked again after this error.
    ///
    /// A completion without an answer may have been carried out. It is sent again only where the
    /// ticket names entries, which cannot be completed twice: in the log of a sliding window,
    /// within the window.
    fn may_ask_again(&self, error: &StoreError) -> bool {
        let names_entries = self.part.check().terms.algorithm().row().is_log;
        matches!(
            error.kind(),
            StoreErrorKind::Unavailable | StoreErrorKind::TimedOut | StoreErrorKind::Full
        ) && (!error.is_lost() || (names_entries && self.counts()))
    }

    /// Asks the store that made the charge to complete it. The answer is `true` if a part of it was
    /// left.
    fn ask(&self, is_sent_again: bool) -> Answer<'_, bool> {
        let engine = &self.part.engine;
        let (store, ticket): (&dyn Store, u64) = match self.receipt {
            Receipt::Store(ticket) => (&*engine.store, ticket),
            Receipt::Fallback(ticket) => (engine.fallback.store(), ticket),
        };
        let mut request = self.part.check().request;
        request.is_sent_again = is_sent_again;
        let Some(actual) = self.completion.actual(request.cost()) else {
            return store.refund(request, ticket);
        };
        let name = self.part.bound.name;
        store.settle(request, ticket, actual).map(move |settled| {
            observe::cost_dropped(name, settled.dropped);
            settled.was_open
        })
    }
}

/// A charge whose end no runtime has begun, and its settlement. If the runtime ends before, that of
/// the call begins it.
struct Unbegun {
    charge: Option<(watch::Receiver<()>, Box<OpenCharge>)>,
    is_sent: bool,
}

impl Unbegun {
    async fn complete(mut self) {
        // The failure is reported before the settlement counts as ended.
        if let Some((_open, mut charge)) = self.charge.take() {
            charge.error = charge.complete_once_served(self.is_sent).await.err();
        }
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        if let Some((open, mut charge)) = self.charge.take()
            && let Some(runtime) = charge.runtime.take()
        {
            let (charge, is_sent) = (Some((open, charge)), self.is_sent);
            runtime.spawn(Self { charge, is_sent }.complete());
        }
    }
}

impl Drop for OpenCharge {
    fn drop(&mut self) {
        if let Some(error) = &self.error {
            observe::log::unsettled(self.part.bound.name.as_str(), &self.completion, error);
        }
    }
}

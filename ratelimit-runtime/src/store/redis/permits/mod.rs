//! [`Permits`]: the permits that calls in flight of one client have: how they take their places,
//! keep them and leave them.
//!
//! A client knows each of its permits from before it asks for the place until the server has
//! confirmed that it is left: so a place is left by id whatever became of the answer, and no place
//! is kept that is not known. What is to be sent without a caller, leaving and renewing, is sent by
//! a [task](upkeep) of the client's runtime. If that ends, or stands still, places lapse with their
//! leases.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;

pub(crate) use self::ask::Ask;
use self::open::EnterOutcome;
use self::state::{State, question};
use self::upkeep::Task;
use super::scripts::{Question, own_time};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::observe;
use crate::real_time::NoTimers;
use crate::store::{Entry, PermitId, PlaceRequest};

mod ask;
mod open;
mod state;
mod upkeep;

/// The permits of one client.
pub(crate) struct Permits {
    state: Arc<State>,
}

impl Permits {
    /// By the store's own clock, or the server's.
    pub(crate) fn new(clock: Option<Arc<dyn Clock>>) -> Self {
        Self { state: Arc::new(State::new(clock)) }
    }

    /// Takes a place, and charges what these questions ask, all or none.
    ///
    /// # Errors
    ///
    /// Those of `asks`. The place is left if it may have been taken.
    pub(crate) async fn enter<A: Ask>(
        &self,
        asks: &Arc<A>,
        place: PlaceRequest<'_>,
        limits: Vec<(&[u8], Question)>,
    ) -> Result<Entry, StoreError> {
        let now = own_time(self.state.clock.as_deref())?;
        let runtime = Handle::try_current().map_err(|_| StoreError::misconfigured(NoTimers::NoRuntime.to_string()))?;
        let sent_at = Instant::now();
        let leaving = self.state.lock().begin(&place, sent_at);
        let (state, permit, outcome) = (&self.state, place.permit(), EnterOutcome::Unknown);
        let mut entering = Entering { state, asks, runtime, permit, sent_at, outcome };
        let own = (place.key(), question("enter", &place, leaving, now));
        let stack: Vec<_> = [own].into_iter().chain(limits).collect();
        let answer = asks.ask(&stack, place.timeout_at()).await;
        if answer.as_ref().is_err_and(|error| !error.is_lost()) {
            entering.outcome = EnterOutcome::NotEntered;
        }
        let mut verdicts = answer?.into_iter();
        let place = verdicts.next().ok_or_else(|| StoreError::unavailable("Redis gave no answer").lost())?;
        let make = if place.allowed { Entry::free } else { Entry::full };
        let entry = make(place.remaining, verdicts.collect());
        entering.outcome = if entry.is_entered() { EnterOutcome::Entered } else { EnterOutcome::NotEntered };
        Ok(entry)
    }

    /// How many calls of the key are in flight.
    ///
    /// # Errors
    ///
    /// Those of `asks`.
    pub(crate) async fn in_flight<A: Ask>(&self, asks: &A, place: PlaceRequest<'_>) -> Result<u64, StoreError> {
        let now = own_time(self.state.clock.as_deref())?;
        let leaving = self.state.lock().leaving(place.key());
        let verdicts = asks.ask(&[(place.key(), question("look", &place, leaving, now))], place.timeout_at()).await?;
        Ok(verdicts.first().map_or(0, |verdict| verdict.remaining))
    }

    /// Leaves the place of a permit; says whether it is one of these. Sends nothing by itself, and
    /// may be called on any thread.
    pub(crate) fn leave(&self, place: &PlaceRequest<'_>) -> bool {
        let mut open = self.state.lock();
        let is_known = open.leave(place.permit(), Instant::now());
        let unsent = if open.has_ended() { open.forget_leaving() } else { Vec::new() };
        self.state.wake(open);
        unsent.into_iter().for_each(observe::log::place_not_left);
        is_known
    }

    /// Returns once no place is left to be left.
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = pin!(self.state.settled.notified());
            settled.as_mut().enable();
            if !self.state.lock().has_leaving() {
                return;
            }
            settled.await;
        }
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").finish_non_exhaustive()
    }
}

/// A call that asks for a place. However it ends, also when it is dropped, its permit is open, or
/// leaves if the call may have been carried out, or is forgotten.
struct Entering<'a, A: Ask> {
    state: &'a Arc<State>,
    asks: &'a Arc<A>,
    runtime: Handle,
    permit: PermitId,
    sent_at: Instant,
    outcome: EnterOutcome,
}

impl<A: Ask> Drop for Entering<'_, A> {
    fn drop(&mut self) {
        let mut open = self.state.lock();
        open.end(self.permit, self.outcome, self.sent_at, Instant::now());
        let starts = open.has_ended();
        open.is_tended |= starts;
        self.state.wake(open);
        if starts {
            // A runtime that has ended drops the task at once, which takes the lock.
            self.runtime.spawn(Task(Arc::clone(self.state)).run(Arc::clone(self.asks)));
        }
    }
}

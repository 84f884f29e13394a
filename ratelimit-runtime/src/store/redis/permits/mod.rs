//! [`Permits`]: the permits that calls in flight of one client have: how they take their places,
//! keep them and leave them.
//!
//! A client knows each of its permits from before it asks for the place until the server has
//! confirmed that it is left: so a place is left by id whatever became of the answer, and no place
//! is kept that is not known. What is to be sent without a caller, leaving and renewing, is sent by
//! a task of the client's runtime ([`upkeep`]). If that ends, or stands still, places lapse with
//! their leases.

mod open;
mod upkeep;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;

use self::open::EnterOutcome;
use self::upkeep::{Task, Upkeep};
use super::batcher::Verdicts;
use super::scripts::{Question, own_time};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::real_time::NO_RUNTIME;
use crate::store::{Entry, PermitId, PlaceRequest};

/// What permits need of a client.
pub(crate) trait Ask: Send + Sync + 'static {
    /// Asks one question, or several on keys of one slot, which are charged all or none.
    fn ask(
        &self,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send;

    /// Another number after each new connection, whose server may have forgotten permits.
    fn epoch(&self) -> u64;
}

/// The permits of one client.
pub(crate) struct Permits {
    upkeep: Arc<Upkeep>,
}

impl Permits {
    /// By the store's own clock, or the server's.
    pub(crate) fn new(clock: Option<Arc<dyn Clock>>) -> Self {
        Self { upkeep: Arc::new(Upkeep::new(clock)) }
    }

    /// Takes a place, and charges what these questions ask, all or none.
    ///
    /// # Errors
    ///
    /// Those of `asks`. The place is left if it may have been taken.
    pub(crate) async fn enter<A: Ask>(
        &self,
        asks: &Arc<A>,
        place: PlaceRequest,
        limits: Vec<(&[u8], Question)>,
    ) -> Result<Entry, StoreError> {
        let runtime = Handle::try_current().map_err(|_| StoreError::misconfigured(NO_RUNTIME))?;
        let (upkeep, permit, sent_at) = (&self.upkeep, place.permit, Instant::now());
        let leaving = upkeep.open().begin(&place);
        let mut entering = Entering { upkeep, asks, runtime, permit, sent_at, outcome: EnterOutcome::NotEntered };
        let own = (&*place.key, upkeep.question("enter", &place, leaving)?);
        let stack: Vec<_> = [own].into_iter().chain(limits).collect();
        entering.outcome = EnterOutcome::Unknown;
        let answer = asks.ask(&stack, place.timeout_at).await;
        if answer.as_ref().is_err_and(|error| !error.is_lost()) {
            entering.outcome = EnterOutcome::NotEntered;
        }
        let mut verdicts = answer?.into_iter();
        let place = verdicts.next().ok_or_else(|| StoreError::unavailable("Redis gave no answer").lost())?;
        let entry = Entry { is_full: !place.allowed, in_flight: place.remaining, verdicts: verdicts.collect() };
        entering.outcome = if entry.is_entered() { EnterOutcome::Entered } else { EnterOutcome::NotEntered };
        Ok(entry)
    }

    /// How many calls of the key are in flight.
    ///
    /// # Errors
    ///
    /// Those of `asks`.
    pub(crate) async fn in_flight<A: Ask>(&self, asks: &A, place: PlaceRequest) -> Result<u64, StoreError> {
        let leaving = self.upkeep.open().leaving(&place.key);
        let question = self.upkeep.question("look", &place, leaving)?;
        let verdicts = asks.ask(&[(&*place.key, question)], place.timeout_at).await?;
        Ok(verdicts.first().map_or(0, |verdict| verdict.remaining))
    }

    /// Leaves the place of a permit; says whether it is one of these. Sends nothing by itself, and
    /// may be called on any thread.
    pub(crate) fn leave(&self, place: &PlaceRequest) -> bool {
        let mut open = self.upkeep.open();
        let is_known = open.leave(place.permit, Instant::now());
        self.upkeep.wake(open);
        is_known
    }

    /// Returns once no place is left to be left.
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = pin!(self.upkeep.settled.notified());
            settled.as_mut().enable();
            if !self.upkeep.open().has_leaving() {
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
    upkeep: &'a Arc<Upkeep>,
    asks: &'a Arc<A>,
    runtime: Handle,
    permit: PermitId,
    sent_at: Instant,
    outcome: EnterOutcome,
}

impl<A: Ask> Drop for Entering<'_, A> {
    fn drop(&mut self) {
        let mut open = self.upkeep.open();
        open.end(self.permit, self.outcome, self.sent_at, Instant::now());
        let starts = !open.is_tended && !open.is_empty();
        open.is_tended |= starts;
        self.upkeep.wake(open);
        if starts {
            // A runtime that has ended drops the task at once, which takes the lock.
            self.runtime.spawn(Task::new(Arc::clone(self.upkeep)).run(Arc::clone(self.asks)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::store::Verdict;

    /// A server that has room and answers at once.
    struct Room;

    impl Ask for Room {
        async fn ask(&self, _: &[(&[u8], Question)], _: Option<Instant>) -> Result<Verdicts, StoreError> {
            tokio::task::yield_now().await;
            Ok([Verdict::admitted()].into_iter().collect())
        }

        fn epoch(&self) -> u64 {
            0
        }
    }

    /// The task ends with the last permit, and another begins with the next, at the same time.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_permit_taken_while_the_task_ends_is_known() {
        let (permits, room) = (Arc::new(Permits::new(None)), Arc::new(Room));
        let tasks = (0..3).map(|turn| {
            let (permits, room) = (Arc::clone(&permits), Arc::clone(&room));
            tokio::spawn(async move {
                let mut unknown = 0;
                for call in 0..30_000 {
                    let place = PlaceRequest::new(b"key", 10);
                    assert!(permits.enter(&room, place.clone(), Vec::new()).await.unwrap().is_entered());
                    unknown += u32::from(!permits.leave(&place));
                    if (call + turn) % 3 == 0 {
                        permits.settled().await;
                    }
                }
                unknown
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            assert_eq!(task.await.unwrap(), 0);
        }
    }
}

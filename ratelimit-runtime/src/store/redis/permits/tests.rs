//! What is due of permits, by hand: no server and no time. And what the task makes of it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::open::{DuePermit, EnterOutcome, Loss, OpenPermits};
use super::{Ask, Permits};
use crate::error::StoreError;
use crate::store::redis::scripts::Question;
use crate::store::{PermitId, PlaceRequest, Verdict};

const LEASE: Duration = PlaceRequest::MIN_LEASE;
const SECOND: Duration = Duration::from_secs(1);

fn place() -> PlaceRequest<'static> {
    PlaceRequest::new(b"key", 1, PermitId::next()).with_lease(LEASE)
}

struct Fixture {
    open: OpenPermits,
    now: Instant,
}

impl Fixture {
    fn new() -> Self {
        let now = Instant::now();
        Self { open: OpenPermits::new(now), now }
    }

    fn ends(&mut self, outcome: EnterOutcome) -> PlaceRequest<'static> {
        let place = place();
        self.open.begin(&place, self.now);
        self.open.end(place.permit(), outcome, self.now, self.now);
        place
    }

    fn enters(&mut self) -> PlaceRequest<'static> {
        self.ends(EnterOutcome::Entered)
    }

    fn leaves(&mut self, place: PlaceRequest<'_>) -> bool {
        self.open.leave(place.permit(), self.now)
    }

    fn due(&mut self, after: Duration) -> Vec<DuePermit> {
        self.open.take_due(self.now + after)
    }

    fn answer(&mut self, upkeep: &DuePermit, done: Option<bool>, after: Duration) -> Option<Loss> {
        self.open.note(upkeep, done, self.now + after, self.now + after)
    }
}

#[test]
fn a_lease_is_renewed_every_third_of_it_and_what_failed_after_a_second() {
    let mut permits = Fixture::new();
    let (entered, third) = (permits.enters(), LEASE / 3 + Duration::from_millis(50));
    assert!(permits.due(LEASE / 7).is_empty());
    let due = permits.due(third);
    assert!(due.len() == 1 && !due[0].leaves);
    assert!(permits.due(LEASE).is_empty(), "one question at a time");
    assert_eq!(permits.answer(&due[0], Some(true), third), None);
    assert!(permits.due(third + LEASE / 4).is_empty());
    let due = permits.due(2 * third);
    assert_eq!(permits.answer(&due[0], None, 2 * third), None);
    let due = permits.due(2 * third + SECOND);
    assert_eq!(permits.answer(&due[0], Some(false), LEASE), Some(Loss::Permit));
    assert!(permits.open.is_empty() && !permits.leaves(entered), "there is nothing to leave");
}

/// A renewal that arrives behind the leaving would enter again.
#[test]
fn a_permit_leaves_once_what_is_pending_has_ended_and_goes_first() {
    for done in [Some(true), Some(false), None] {
        let mut permits = Fixture::new();
        let entered = permits.enters();
        let renewal = permits.due(LEASE);
        let _others = [permits.enters(), permits.enters()];
        assert!(permits.leaves(entered) && permits.due(Duration::ZERO).is_empty());
        assert_eq!(permits.answer(&renewal[0], done, LEASE), None);
        let left = permits.due(LEASE).iter().map(|upkeep| upkeep.leaves).collect::<Vec<_>>();
        assert_eq!(left, if done == Some(false) { vec![false; 2] } else { vec![true, false, false] }, "{done:?}");
    }
}

#[test]
fn what_may_have_entered_is_left_until_its_lease_is_over_and_what_has_not_is_forgotten() {
    let mut permits = Fixture::new();
    permits.ends(EnterOutcome::NotEntered);
    assert!(permits.open.is_empty());
    permits.ends(EnterOutcome::Unknown);
    let mut carried = permits.open.begin(&place().replacing(PermitId::next()), permits.now);
    assert_eq!(carried.len(), 2, "the one it replaces, and the one that leaves");
    carried.dedup();
    assert_eq!(carried.len(), 2);
    for (after, loss) in [(Duration::ZERO, None), (SECOND, None), (2 * LEASE, Some(Loss::Leaving))] {
        let due = permits.due(after);
        assert!(due.len() == 1 && due[0].leaves);
        assert_eq!(permits.answer(&due[0], None, after), loss);
    }
    assert!(!permits.open.has_leaving());
}

#[test]
fn calls_in_flight_are_bounded_and_all_leases_may_be_renewed_at_once() {
    let mut permits = Fixture::new();
    let _all: Vec<_> = (0..300).map(|_| permits.enters()).collect();
    permits.open.renew_all(permits.now);
    let due = permits.due(Duration::ZERO);
    assert!(due.len() == 256 && permits.due(Duration::ZERO).is_empty() && !permits.open.has_work(permits.now));
    permits.answer(&due[0], Some(true), Duration::ZERO);
    assert!(permits.open.has_work(permits.now) && permits.due(Duration::ZERO).len() == 1);
}

/// Admits all calls, but for the first so many, which it never answers.
#[derive(Default)]
struct Server {
    unanswered: usize,
    asked: AtomicUsize,
    epoch: AtomicU64,
}

impl Ask for Server {
    async fn ask(&self, stack: &[(&[u8], Question)], _: Option<Instant>) -> Result<Vec<Verdict>, StoreError> {
        if self.asked.fetch_add(1, Ordering::SeqCst) < self.unanswered {
            std::future::pending::<()>().await;
        }
        Ok(vec![Verdict::admitted(); stack.len()])
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_place_is_left_from_any_thread_and_by_a_caller_who_gives_up() {
    for unanswered in [0, 1] {
        let (permits, server) = (Permits::new(None), Arc::new(Server { unanswered, ..Server::default() }));
        let entered = place();
        let entering = permits.enter(&server, entered, Vec::new());
        let answer = tokio::time::timeout(Duration::from_millis(20), entering).await;
        assert_eq!(answer.is_err(), unanswered == 1);
        assert!(std::thread::scope(|scope| scope.spawn(|| permits.leave(&entered)).join().unwrap()));
        tokio::time::timeout(SECOND, permits.settled()).await.unwrap();
        assert_eq!(server.asked.load(Ordering::SeqCst), 2);
        assert!(!permits.leave(&entered), "it has left");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(Arc::strong_count(&server), 1, "the task has ended");
    }
}

#[tokio::test]
async fn a_new_connection_renews_all_leases_at_once() {
    let (permits, server) = (Permits::new(None), Arc::new(Server::default()));
    let entered = [place(), place()];
    for place in entered {
        assert!(permits.enter(&server, place, Vec::new()).await.unwrap().is_entered());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.asked.load(Ordering::SeqCst), 2, "no lease is due");
    server.epoch.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.asked.load(Ordering::SeqCst), 4);
}

#[test]
fn permits_of_a_runtime_that_has_ended_lapse() {
    let (permits, server) = (Permits::new(None), Arc::new(Server::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let entered = [place(), place()];
    for place in entered {
        assert!(runtime.block_on(permits.enter(&server, place, Vec::new())).unwrap().is_entered());
    }
    assert!(permits.leave(&entered[0]));
    drop(runtime);
    assert!(!permits.leave(&entered[0]) && permits.leave(&entered[1]) && !permits.leave(&entered[1]));
    assert_eq!((server.asked.load(Ordering::SeqCst), Arc::strong_count(&server)), (2, 1));
}

//! What is due of permits, by hand: no server and no time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Id, Runtime};
use tokio::sync::mpsc;

use super::open_permits::{EnterOutcome, OpenPermits, Upkeep, UpkeepResult};
use crate::store::redis::connection::pulse::Pulse;
use crate::store::redis::scripts::place::{PlaceOperation, PlaceOutcome};
use crate::store::{PermitId, PlaceRequest};

const LEASE: Duration = PlaceRequest::MIN_LEASE;

/// Permits of two runtimes, of which the first has a driver.
struct Fixture {
    open: OpenPermits<()>,
    runtimes: [Runtime; 2],
    wakes: Vec<mpsc::Receiver<()>>,
    now: Instant,
}

impl Fixture {
    fn new() -> Self {
        let now = Instant::now();
        let runtimes = [(), ()].map(|()| Builder::new_current_thread().build().unwrap());
        let mut fixture = Self { open: OpenPermits::new(now), runtimes, wakes: Vec::new(), now };
        fixture.add_driver(0);
        fixture
    }

    fn id(&self, runtime: usize) -> Id {
        self.runtimes.get(runtime).unwrap().handle().id()
    }

    fn add_driver(&mut self, runtime: usize) {
        let (wake, wakes) = mpsc::channel(1);
        self.wakes.push(wakes);
        self.open.add_driver(self.id(runtime), Arc::new(Pulse::new()), wake);
    }

    fn entered(&mut self, key: &str) -> PlaceRequest<'static> {
        let key: &'static [u8] = key.to_owned().leak().as_bytes();
        let place = PlaceRequest::new(key, 1, PermitId::next()).with_lease(LEASE);
        let (carried, _) = self.open.begin(&place, self.id(0));
        self.open.end(place.permit(), &carried, EnterOutcome::Entered(self.now));
        place
    }

    /// What is due on a runtime after this time.
    fn due(&mut self, runtime: usize, after: Duration) -> Vec<Upkeep> {
        self.open.take_due(self.id(runtime), self.now + after).0
    }

    fn answer(&mut self, upkeep: &Upkeep, outcome: PlaceOutcome, after: Duration) -> UpkeepResult {
        self.open.note_outcome(upkeep, outcome, self.now + after, self.now + after)
    }
}

fn operations(due: &[Upkeep]) -> Vec<PlaceOperation> {
    due.iter().map(|upkeep| upkeep.operation).collect()
}

#[test]
fn a_lease_is_renewed_every_third_of_it_and_what_failed_after_a_second() {
    let mut permits = Fixture::new();
    let place = permits.entered("key");
    assert!(permits.due(0, LEASE / 7).is_empty());
    let due = permits.due(0, LEASE / 3);
    assert_eq!(operations(&due), [PlaceOperation::Renew]);
    assert!(permits.due(0, LEASE).is_empty(), "one question at a time");
    assert_eq!(permits.answer(&due[0], PlaceOutcome::Done, LEASE / 3), UpkeepResult::Well);
    assert!(permits.due(0, LEASE / 2).is_empty());
    let due = permits.due(0, 2 * LEASE / 3);
    assert_eq!(permits.answer(&due[0], PlaceOutcome::Failed, 2 * LEASE / 3), UpkeepResult::Well);
    let due = permits.due(0, 2 * LEASE / 3 + Duration::from_secs(1));
    assert_eq!(permits.answer(&due[0], PlaceOutcome::Refused, LEASE), UpkeepResult::Lost(""));
    assert!(permits.open.is_empty());
    assert_eq!(permits.open.leave(place.permit(), None), None, "there is nothing to leave");
}

/// A renewal that arrives behind the leaving would enter again.
#[test]
fn a_permit_leaves_once_what_is_pending_has_ended() {
    for outcome in [PlaceOutcome::Done, PlaceOutcome::EnteredAgain, PlaceOutcome::Failed] {
        let mut permits = Fixture::new();
        let place = permits.entered("key");
        let renewal = permits.due(0, LEASE / 3);
        permits.open.leave(place.permit(), None);
        assert!(permits.due(0, LEASE / 3).is_empty());
        permits.answer(&renewal[0], outcome, LEASE / 3);
        let leaving = permits.due(0, Duration::ZERO);
        assert_eq!(operations(&leaving), [PlaceOperation::Leave], "{outcome:?}");
        permits.answer(&leaving[0], PlaceOutcome::Done, LEASE / 3);
        assert!(permits.open.is_empty());
    }
}

#[test]
fn a_call_that_enters_carries_along_what_leaves_its_key() {
    let mut permits = Fixture::new();
    let place = permits.entered("key");
    permits.open.leave(place.permit(), None);
    // The answer to the first is lost, so the permit is left again; the second confirms it.
    for (outcome, is_left) in [(EnterOutcome::Unknown, false), (EnterOutcome::Refused, true)] {
        let next = place.with_permit(PermitId::next());
        let (carried, members) = permits.open.begin(&next, permits.id(0));
        assert!(carried.contains(&place.permit()) && !members.is_empty());
        assert!(permits.due(0, Duration::ZERO).iter().all(|upkeep| upkeep.permit != place.permit()));
        permits.open.end(next.permit(), &carried, outcome);
        let due = permits.due(0, Duration::ZERO);
        assert_eq!(due.iter().any(|upkeep| upkeep.permit == place.permit()), !is_left);
        for upkeep in due.iter().filter(|upkeep| upkeep.permit == place.permit()) {
            permits.answer(upkeep, PlaceOutcome::Failed, Duration::ZERO);
        }
    }
}

#[test]
fn what_may_have_entered_leaves_and_what_was_not_sent_is_forgotten() {
    let mut permits = Fixture::new();
    let place = PlaceRequest::new(b"key", 1, PermitId::next()).with_lease(LEASE);
    for outcome in [EnterOutcome::NotAsked, EnterOutcome::Refused] {
        permits.open.begin(&place, permits.id(0));
        permits.open.end(place.permit(), &[], outcome);
        assert!(permits.open.is_empty(), "{outcome:?}");
    }
    permits.open.begin(&place, permits.id(0));
    permits.open.end(place.permit(), &[], EnterOutcome::Unknown);
    permits.open.leave(place.permit(), None);
    let leaving = permits.due(0, Duration::ZERO);
    assert_eq!(operations(&leaving), [PlaceOperation::Leave]);
    // No answer for as long as a lease: the place has lapsed.
    assert_eq!(permits.answer(&leaving[0], PlaceOutcome::Failed, 2 * LEASE), UpkeepResult::NotLeft(""));
    assert!(permits.open.is_empty());
}

#[test]
fn what_leaves_is_sent_ahead_of_what_is_renewed() {
    let mut permits = Fixture::new();
    let places: Vec<_> = (0..3).map(|key| permits.entered(&format!("key{key}"))).collect();
    permits.open.leave(places[2].permit(), None);
    let due = permits.due(0, LEASE);
    assert_eq!(operations(&due), [PlaceOperation::Leave, PlaceOperation::Renew, PlaceOperation::Renew]);
}

#[test]
fn the_driver_of_another_runtime_takes_over() {
    let mut permits = Fixture::new();
    let places: Vec<_> = (0..3).map(|key| permits.entered(&format!("key{key}"))).collect();
    permits.add_driver(1);
    assert!(permits.due(1, LEASE).is_empty());
    // One is pending when its runtime ends.
    let pending = permits.due(0, Duration::from_secs(1)).into_iter().next();
    permits.open.remove_driver(permits.id(0));
    assert_eq!(permits.due(1, LEASE).len(), 3);
    drop(pending);
    assert_eq!(permits.open.leave(places[0].permit(), None), None, "there is a driver");
    permits.open.remove_driver(permits.id(1));
    assert_eq!(permits.open.leave(places[1].permit(), None), Some(""), "there is none");
    permits.add_driver(0);
    let due = permits.due(0, LEASE);
    assert_eq!(operations(&due), [PlaceOperation::Leave, PlaceOperation::Leave, PlaceOperation::Renew]);
}

/// A renewal that is late, of a runtime that stood still, takes the place of a call that has ended.
#[test]
fn a_place_that_a_late_renewal_took_anew_is_left_again() {
    for (outcome, is_taken) in [
        (PlaceOutcome::EnteredAgain, true),
        (PlaceOutcome::Done, true),
        (PlaceOutcome::Refused, false),
        (PlaceOutcome::Failed, false),
    ] {
        let mut permits = Fixture::new();
        let place = permits.entered("key");
        permits.add_driver(1);
        let renewal = permits.due(0, LEASE / 3);
        permits.open.leave(place.permit(), None);
        permits.open.remove_driver(permits.id(0));
        let leaving = permits.due(1, Duration::ZERO);
        assert_eq!(operations(&leaving), [PlaceOperation::Leave]);
        permits.answer(&leaving[0], PlaceOutcome::Done, LEASE / 3);
        assert!(permits.open.is_empty());
        permits.answer(&renewal[0], outcome, LEASE / 3);
        let again = permits.due(1, Duration::ZERO);
        assert_eq!(!again.is_empty(), is_taken, "{outcome:?}");
        for upkeep in &again {
            assert_eq!(upkeep.operation, PlaceOperation::Leave);
            permits.answer(upkeep, PlaceOutcome::Done, LEASE / 3);
        }
        assert!(permits.open.is_empty(), "{outcome:?}");
    }
}

/// All calls of one key may end while its server hangs: what each of them costs must not grow with
/// how many there are. By comparisons with each other these were five thousand million.
#[test]
fn many_permits_of_one_key_leave_without_being_compared_with_each_other() {
    let mut permits = Fixture::new();
    let places: Vec<_> = (0..100_000).map(|_| permits.entered("key")).collect();
    let start = Instant::now();
    for place in &places {
        permits.open.leave(place.permit(), None);
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_new_connection_renews_all_at_once() {
    let mut permits = Fixture::new();
    let (id, now) = (permits.id(0), permits.now);
    permits.open.note_connections(id, 1, now);
    permits.entered("key");
    permits.open.note_connections(id, 1, now);
    assert!(permits.due(0, Duration::ZERO).is_empty());
    permits.open.note_connections(id, 2, now);
    assert_eq!(operations(&permits.due(0, Duration::ZERO)), [PlaceOperation::Renew]);
}

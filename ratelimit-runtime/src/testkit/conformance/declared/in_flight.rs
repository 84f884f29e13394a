//! Calls in flight: places, and the limits beside them.

use crate::rule::{Algorithm, Limit};
use crate::store::{Entry, PermitId, PlaceRequest, Request};
use crate::testkit::conformance::bench::{Bench, answered};
use crate::testkit::conformance::random::Random;

async fn enter(bench: &Bench, place: PlaceRequest<'_>, requests: &[Request<'_>]) -> Entry {
    answered(bench.built_in().enter(place, requests).await)
}

async fn in_flight(bench: &Bench, place: PlaceRequest<'_>) -> u64 {
    answered(bench.built_in().in_flight(place).await)
}

/// A place is taken until it is left, by its permit and once.
pub(in crate::testkit::conformance) async fn so_many_places_are_taken_and_no_more(bench: Bench, _: Algorithm) {
    let (key, other) = (bench.key(b"one"), bench.key(b"other"));
    let [first, second, third] = [(); 3].map(|()| PlaceRequest::new(&key, 2, PermitId::next()));
    for (place, in_flight) in [(first, 1), (second, 2)] {
        let entry = enter(&bench, place, &[]).await;
        assert!(entry.is_entered() && entry.in_flight == in_flight, "{entry:?}");
    }
    let entry = enter(&bench, third, &[]).await;
    assert!(entry.is_full && !entry.is_entered() && entry.in_flight == 2, "{entry:?}");
    assert!(enter(&bench, PlaceRequest::new(&other, 1, PermitId::next()), &[]).await.is_entered());
    // One that has no place has none to leave.
    bench.built_in().leave(third);
    assert!(enter(&bench, third, &[]).await.is_full);
    for _ in 0..2 {
        bench.built_in().leave(first);
        assert_eq!(in_flight(&bench, first).await, 1);
    }
    assert!(enter(&bench, third, &[]).await.is_entered());
    // Each is measured against the number that it brings.
    let more = PlaceRequest::new(&key, 3, PermitId::next());
    assert!(enter(&bench, PlaceRequest::new(&key, 1, PermitId::next()), &[]).await.is_full);
    assert!(enter(&bench, more, &[]).await.is_entered());
}

/// What is handed over is left and taken in one step, whatever comes of the rest.
pub(in crate::testkit::conformance) async fn a_place_is_handed_over(bench: Bench, _: Algorithm) {
    let key = bench.key(b"handed");
    let [first, second, third] = [(); 3].map(|()| PlaceRequest::new(&key, 1, PermitId::next()));
    assert!(enter(&bench, first, &[]).await.is_entered());
    assert!(enter(&bench, second.replacing(first.permit()), &[]).await.is_entered());
    assert_eq!(in_flight(&bench, second).await, 1);
    bench.built_in().leave(first);
    assert!(enter(&bench, third, &[]).await.is_full, "the one that was replaced has no place to leave");
    bench.built_in().leave(second);
    assert!(enter(&bench, third.replacing(second.permit()), &[]).await.is_entered());
}

/// All is charged and the place is taken, or nothing.
pub(in crate::testkit::conformance) async fn a_place_and_limits_are_had_together(bench: Bench, algorithm: Algorithm) {
    let (key, limited) = (bench.key(b"place"), bench.key(b"limited"));
    let limits = [Limit::per_hour(2)];
    let requests = [Request::new(&limited, algorithm, &limits)];
    let place = || PlaceRequest::new(&key, 1, PermitId::next());
    if !bench.store.own().enters_together(&place(), &requests) {
        return;
    }
    let first = place();
    let entry = enter(&bench, first, &requests).await;
    assert!(entry.is_entered() && entry.verdicts.len() == 1, "{entry:?}");
    let entry = enter(&bench, place(), &requests).await;
    assert!(entry.is_full && entry.verdicts.len() <= 1, "{entry:?}");
    let [request] = requests;
    assert_eq!(answered(bench.store.peek(request).await).remaining, 1, "who has no place is charged nothing");
    bench.built_in().leave(first);
    let second = place();
    assert!(enter(&bench, second, &requests).await.is_entered());
    bench.built_in().leave(second);
    let entry = enter(&bench, place(), &requests).await;
    assert!(!entry.is_full && !entry.is_entered(), "{entry:?}");
    assert_eq!(in_flight(&bench, second).await, 0, "who is refused by a limit takes no place");
}

/// Random calls that enter, leave, and leave twice agree with a list of permits.
pub(in crate::testkit::conformance) async fn random_calls_in_flight_agree_with_the_model(bench: Bench, _: Algorithm) {
    let key = bench.key(b"random");
    let mut random = Random(7);
    let mut open: Vec<PermitId> = Vec::new();
    let mut gone: Vec<PermitId> = Vec::new();
    for step in 0..400 {
        let max = random.within(1, 6);
        let place = PlaceRequest::new(&key, max, PermitId::next());
        let one_of = |permits: &[PermitId], at: u64| permits.get(usize::try_from(at).unwrap_or(0)).copied();
        let chosen = one_of(&open, random.within(0, 5));
        match random.within(0, 4) {
            0 | 1 => {
                let entered = enter(&bench, place, &[]).await.is_entered();
                assert_eq!(entered, (open.len() as u64) < max, "step {step}: {} of {max}", open.len());
                open.extend(entered.then(|| place.permit()));
            }
            2 => {
                if let Some(chosen) = chosen {
                    bench.built_in().leave(place.with_permit(chosen));
                    open.retain(|permit| *permit != chosen);
                    gone.push(chosen);
                }
            }
            3 => {
                let replaced = chosen.unwrap_or_else(PermitId::next);
                open.retain(|permit| *permit != replaced);
                let entered = enter(&bench, place.replacing(replaced), &[]).await.is_entered();
                assert_eq!(entered, (open.len() as u64) < max, "step {step}, handed over");
                open.extend(entered.then(|| place.permit()));
            }
            _ => {
                if let Some(twice) = one_of(&gone, random.within(0, 20)) {
                    bench.built_in().leave(place.with_permit(twice));
                }
            }
        }
        assert_eq!(in_flight(&bench, place).await, open.len() as u64, "step {step}");
    }
}

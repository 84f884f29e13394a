//! What else a refusal answers: other costs, reservations, parts of stacks, and what looks have
//! seen.

use ratelimit_runtime::__private::PermitId;
use ratelimit_runtime::testkit::FakeClock;

use super::*;

const TEN: [Limit; 1] = [Limit::per_minute(10)];
const BLOCK: Duration = Duration::from_secs(30);

/// A request under a limit of ten.
fn of(cost: u64) -> Request<'static> {
    Request::new(b"ten", Algorithm::SlidingWindow, &TEN).with_cost(cost)
}

/// A deny cache around a store that has admitted a cost of eight.
async fn eight() -> (Far, Arc<DenyCache<Far>>) {
    let (far, cache) = cached();
    assert!(ask(&cache, of(8)).await.allowed);
    (far, cache)
}

#[tokio::test(start_paused = true)]
async fn a_higher_cost_is_refused_without_asking() {
    let (far, cache) = eight().await;
    let refusal = ask(&cache, of(3)).await;
    assert!(!refusal.allowed && !refusal.cached);
    for cost in 3..=1_000 {
        let known = ask(&cache, of(cost)).await;
        assert!(known.cached && !known.allowed, "{cost}");
        assert_eq!(known.retry_after_us, refusal.retry_after_us, "at least");
    }
    assert_eq!(far.asked(), 2);
    assert!(ask(&cache, of(2)).await.allowed, "a lower cost is asked");
    assert_eq!(far.asked(), 3);
}

/// What was learnt before tells nothing, and makes way.
#[tokio::test]
async fn a_refusal_after_the_clock_was_set_back_is_known() {
    let clock = FakeClock::new();
    let memory = MemoryStore::new().with_clock(clock.clone());
    let cache = DenyCache::new(memory).with_clock(clock.clone());
    assert!(ask(&cache, of(10)).await.allowed);
    assert!(!ask(&cache, of(1)).await.cached);
    clock.step_back(SECOND * 3_600);
    assert!(!ask(&cache, of(1)).await.cached);
    assert!(ask(&cache, of(1)).await.cached);
}

#[tokio::test(start_paused = true)]
async fn falling_costs_ask_once_each() {
    let (far, cache) = cached();
    assert!(ask(&cache, of(10)).await.allowed);
    for cost in (1..=10).rev() {
        assert!(!ask(&cache, of(cost)).await.cached);
    }
    for cost in 1..=10 {
        assert!(ask(&cache, of(cost)).await.cached);
    }
    assert_eq!(far.asked(), 11);
}

#[tokio::test(start_paused = true)]
async fn reservations_are_refused_as_charges_are() {
    let (far, cache) = eight().await;
    assert!(!ask(&cache, of(3).reserving()).await.cached);
    for request in [of(3), of(3).reserving(), of(4).reserving_estimate()] {
        assert!(ask(&cache, request).await.cached);
    }
    assert_eq!(far.asked(), 2);
}

/// It sets a block, which a refusal of one without does not tell of.
#[tokio::test(start_paused = true)]
async fn a_request_with_a_block_is_asked_until_the_key_is_blocked() {
    let (far, cache) = eight().await;
    assert!(!ask(&cache, of(3)).await.cached);
    let refusal = ask(&cache, of(5).with_block(BLOCK)).await;
    assert!(refusal.blocked && !refusal.cached);
    for request in [
        of(1),
        of(9),
        of(1).with_block(BLOCK * 2),
        of(5).with_block(BLOCK),
        of(2).reserving(),
    ] {
        let known = ask(&cache, request).await;
        assert!(known.cached && known.blocked, "{request:?}");
    }
    assert_eq!(far.asked(), 3);
}

/// The limits may admit it once the block is over: what they said was of a higher cost.
#[tokio::test(start_paused = true)]
async fn retry_after_of_a_lower_cost_is_the_end_of_the_block() {
    let (_, cache) = eight().await;
    let refusal = ask(&cache, of(5).with_block(BLOCK)).await;
    let by_limits = refusal.retry_after().unwrap();
    assert!(by_limits > BLOCK);
    tokio::time::advance(MILLISECOND * 500).await;
    let told = async |cost| ask(&cache, of(cost)).await.retry_after().unwrap();
    assert_eq!(told(2).await, BLOCK - MILLISECOND * 500);
    assert_eq!(told(5).await, by_limits - MILLISECOND * 500);
    assert_eq!(told(9).await, by_limits - MILLISECOND * 500, "at least");
}

/// Longer than what a verdict can tell to the microsecond.
#[tokio::test(start_paused = true)]
async fn a_long_block_refuses_any_cost_without_asking() {
    let (far, cache) = cached();
    let day = SECOND * 86_400;
    cache.block(of(1), day).await.unwrap();
    assert_eq!(ask(&cache, of(5)).await.retry_after(), Some(day));
    for cost in [1, 5, 10] {
        let known = ask(&cache, of(cost)).await;
        assert!(known.cached && known.blocked);
        assert!(known.retry_after().unwrap() <= day);
    }
    assert_eq!(far.asked(), 1);
    far.is(State::Fails(Health::Down));
    tokio::time::advance(SECOND * 3_600 * 23).await;
    assert_eq!(
        ask(&cache, of(5)).await.retry_after(),
        Some(SECOND * 3_600),
        "while the store is away, until it ends"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_open_reservations_is_known_for_its_retry_after() {
    let (far, cache) = cached();
    let reservation = ask(&cache, of(10).reserving()).await;
    let refusal = ask(&cache, of(1)).await;
    assert_eq!(refusal.retry_after(), Some(MILLISECOND * 50));
    for elapsed in [0, 20, 29] {
        tokio::time::advance(MILLISECOND * elapsed).await;
        assert!(ask(&cache, of(1)).await.cached);
    }
    tokio::time::advance(MILLISECOND).await;
    assert!(!ask(&cache, of(1)).await.cached);
    assert_eq!(far.asked(), 3);
    // One that ends here is seen at once.
    let settled = cache.settle(of(10).reserving(), reservation.ticket, 0);
    assert!(settled.await.unwrap().was_open);
    assert!(ask(&cache, of(1)).await.allowed);
}

/// The wait of 50 ms begins anew with each answer while a reservation is open: it does not run out
/// with what is known, and ends with the reservation.
#[tokio::test(start_paused = true)]
async fn retry_after_of_a_known_block_is_its_end_and_not_that_of_reservations() {
    let (far, cache) = cached();
    assert!(ask(&cache, of(10).reserving()).await.allowed);
    cache.block(of(1), MILLISECOND * 5).await.unwrap();
    let refusal = ask(&cache, of(1)).await;
    assert_eq!(refusal.retry_after(), Some(MILLISECOND * 50));
    tokio::time::advance(MICROSECOND * 1_500).await;
    let known = ask(&cache, of(1)).await;
    assert!(known.cached && known.blocked);
    assert_eq!(known.retry_after(), Some(MICROSECOND * 3_500));
    tokio::time::advance(MICROSECOND * 3_500).await;
    assert!(!ask(&cache, of(1)).await.cached);
    assert_eq!(far.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_refusing_parts_of_a_stack_are_known() {
    let (far, cache) = cached();
    let blocking = request("blocking").with_block(BLOCK);
    for request in [request("one"), blocking] {
        assert!(ask(&cache, request).await.allowed);
    }
    // Two refuse: no block is set, and so the one that would set it is asked again.
    let stack = [request("one"), blocking, request("free")];
    let refused: Vec<bool> = verdicts(&cache, &stack).await;
    assert_eq!(refused, [true, true, false]);
    assert!(at_once(&cache, request("one")).is_some());
    assert_eq!(at_once(&cache, blocking), None);
    assert_eq!(at_once(&cache, request("free")), None);
    // Alone it sets its block.
    assert_eq!(
        verdicts(&cache, &[blocking, request("free")]).await,
        [true, false]
    );
    assert!(at_once(&cache, blocking).unwrap().blocked);
    assert_eq!(far.asked(), 2);
}

async fn verdicts(cache: &DenyCache<Far>, stack: &[Request<'_>]) -> Vec<bool> {
    let verdicts = cache.acquire_all(None, stack).await.unwrap().verdicts;
    verdicts.iter().map(|verdict| !verdict.allowed).collect()
}

/// The second is refused because of the first, which is given back.
#[tokio::test(start_paused = true)]
async fn a_key_twice_in_a_stack_is_not_known_to_be_refused() {
    let (_, cache) = cached();
    let stack = [request("key"), request("key")];
    assert!(verdicts(&cache, &stack).await.contains(&true));
    assert_eq!(at_once(&cache, request("key")), None);
    assert!(ask(&cache, request("key")).await.allowed);
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_stack_that_admits_forgets_nothing() {
    let (_, cache) = eight().await;
    assert!(!ask(&cache, of(3)).await.allowed);
    assert!(ask(&cache, request("other")).await.allowed);
    assert_eq!(
        verdicts(&cache, &[of(1), request("other")]).await,
        [false, true]
    );
    assert!(at_once(&cache, of(3)).is_some());
    assert_eq!(
        verdicts(&cache, &[of(1), request("third")]).await,
        [false, false]
    );
    assert_eq!(at_once(&cache, of(3)), None, "an admission does");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_refuses_a_permit_is_known() {
    let (_, cache) = cached();
    let stack = [request("one"), request("two")];
    for request in stack {
        assert!(ask(&cache, request).await.allowed);
    }
    let permit = PermitRequest::new(b"in flight", 1);
    let verdict = cache
        .acquire_all(Some(permit.clone()), &stack[..1])
        .await
        .unwrap();
    assert!(!verdict.is_acquired());
    assert!(at_once(&cache, stack[0]).is_some());
    assert_eq!(at_once(&cache, stack[1]), None);
    // Where no permit is free, the limits are looked at all the same.
    assert!(
        cache
            .acquire_all(Some(permit.clone()), &[])
            .await
            .unwrap()
            .is_acquired()
    );
    let id = PermitId::next();
    let another = PermitRequest { id, ..permit };
    assert!(
        cache
            .acquire_all(Some(another), &stack)
            .await
            .unwrap()
            .is_full
    );
    assert!(at_once(&cache, stack[1]).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_peek_that_refuses_is_known() {
    let (far, cache) = eight().await;
    let look = async |request| cache.peek(request).await.unwrap();
    assert!(!look(of(3)).await.allowed);
    assert!(at_once(&cache, of(3)).is_some());
    assert!(look(of(2)).await.allowed);
    assert!(
        at_once(&cache, of(3)).is_some(),
        "one that admits forgets nothing"
    );
    assert!(!look(of(4)).await.cached, "a look is always at the store");
    // A look sets no block.
    let blocking = of(3).with_block(BLOCK);
    assert!(!look(blocking).await.allowed);
    assert_eq!(at_once(&cache, blocking), None);
    far.block(of(1), BLOCK).await.unwrap();
    assert!(look(blocking).await.blocked);
    assert!(at_once(&cache, blocking).unwrap().blocked);
    assert_eq!(far.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_offence_is_known() {
    let (_, cache) = eight().await;
    let blocking = of(3).with_block(BLOCK);
    assert!(cache.offend(of(2).with_block(BLOCK)).await.unwrap().allowed);
    assert!(cache.offend(blocking).await.unwrap().blocked);
    assert!(at_once(&cache, blocking).unwrap().blocked);
    assert!(at_once(&cache, of(1)).unwrap().blocked);
}

/// What a look saw before the key changed may be void.
#[tokio::test(start_paused = true)]
async fn a_peek_from_before_a_change_is_not_kept() {
    let (far, cache) = refused("key").await;
    far.is(State::Late);
    let stack = [request("key"), request("other")];
    let mut look = cache.peek(request("key"));
    let mut asked = cache.acquire_all(None, &stack);
    assert!(waits(&mut look) && waits(&mut asked));
    let mut reset = cache.reset(request("key"));
    assert!(waits(&mut reset));
    far.is(State::Answers);
    assert!(reset.await.unwrap());
    assert!(!look.await.unwrap().allowed);
    assert!(!asked.await.unwrap().verdicts[0].allowed);
    assert_eq!(at_once(&cache, request("key")), None);
}

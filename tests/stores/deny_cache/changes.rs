//! What changes a key is seen at once here, and within the bound elsewhere.

use super::*;

fn was_open(settled: Answer<'_, Settled>) -> Answer<'_, bool> {
    Answer::later(async { Ok(settled.await?.was_open) })
}

/// Everything that changes a key, by how it is asked for.
fn changes(store: &DenyCache<Far>) -> Vec<(&'static str, Answer<'_, bool>)> {
    vec![
        ("reset", store.reset(request("key"))),
        ("refund", store.refund(request("key"), 1)),
        (
            "commit",
            was_open(store.settle(request("key").reserving(), 1, 1)),
        ),
        (
            "release",
            was_open(store.settle(request("key").reserving(), 1, 0)),
        ),
        ("unblock", store.unblock(request("key"))),
    ]
}

/// The answer to a question that was sent before a change may be from before it, too.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_a_change_is_not_kept() {
    for at in 0..5 {
        let (far, cache) = refused("key").await;
        tokio::time::advance(SECOND).await;
        far.is(State::Late);
        let mut question = cache.acquire(request("key"));
        assert!(waits(&mut question));
        let (what, mut change) = changes(&cache).swap_remove(at);
        assert!(waits(&mut change));
        far.is(State::Answers);
        change.await.unwrap();
        assert!(!question.await.unwrap().allowed, "it was asked first");
        assert!(!ask(&cache, request("key")).await.cached, "{what}");
    }
}

/// A change whose caller gave up may have been made.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_given_up_counts_as_made() {
    let (far, cache) = refused("key").await;
    far.is(State::Late);
    let mut change = cache.reset(request("key"));
    assert!(waits(&mut change));
    drop(change);
    far.is(State::Answers);
    assert!(ask(&cache, request("key")).await.allowed);
    // A future that no task polled was not.
    assert!(!ask(&cache, request("key")).await.cached);
    drop(cache.reset(request("key")));
    assert!(ask(&cache, request("key")).await.cached);
}

#[tokio::test(start_paused = true)]
async fn what_changes_a_key_elsewhere_is_seen_within_the_bound() {
    let (far, cache) = refused("key").await;
    far.reset(request("key")).await.unwrap();
    tokio::time::advance(MILLISECOND * 800).await;
    assert!(
        ask(&cache, request("key")).await.cached,
        "that is the price"
    );
    tokio::time::advance(MILLISECOND * 200).await;
    assert!(ask(&cache, request("key")).await.allowed);
}

/// Another question that is admitted changes what is left, and under some algorithms when there
/// will be more.
#[tokio::test(start_paused = true)]
async fn an_admission_here_is_seen_at_once() {
    let (far, cache) = cached();
    let limits = [Limit::per_minute(10)];
    let of = |cost| Request::new(b"key", Algorithm::SlidingWindow, &limits).with_cost(cost);
    assert!(ask(&cache, of(6)).await.allowed);
    tokio::time::advance(SECOND).await;
    assert_eq!(
        (
            ask(&cache, of(5)).await.remaining,
            ask(&cache, of(5)).await.cached
        ),
        (4, true)
    );
    assert!(ask(&cache, of(3)).await.allowed);
    let refusal = ask(&cache, of(5)).await;
    assert_eq!((refusal.remaining, refusal.cached), (1, false));
    // So does a stack.
    assert!(ask(&cache, of(5)).await.cached);
    let stack = [of(1), request("other")];
    let verdicts = cache.acquire_all(None, &stack).await.unwrap().verdicts;
    assert!(verdicts.iter().all(|verdict| verdict.allowed));
    assert!(!ask(&cache, of(5)).await.cached);
    assert_eq!(far.asked(), 5);
}

/// One that a refusal of another request sets, and which refuses for longer than what is kept.
#[tokio::test(start_paused = true)]
async fn a_block_that_is_set_here_is_seen_at_once() {
    let (_, cache) = refused("key").await;
    assert!(
        ask(&cache, request("key").with_block(SECOND * 600))
            .await
            .blocked
    );
    let refusal = ask(&cache, request("key")).await;
    assert!(
        refusal.blocked && refusal.retry_after() == Some(SECOND * 600),
        "{refusal:?}"
    );
    assert!(ask(&cache, request("key")).await.cached);
}

/// A stack is the store's to decide, also where a part of it is known to be refused: the caller is
/// told the longest wait.
#[tokio::test(start_paused = true)]
async fn a_stack_is_always_asked() {
    let (_, cache) = refused("key").await;
    cache.block(request("other"), SECOND * 600).await.unwrap();
    assert!(!ask(&cache, request("key")).await.allowed);
    let stack = [request("key"), request("other")];
    let verdicts = cache.acquire_all(None, &stack).await.unwrap().verdicts;
    assert!(
        verdicts
            .iter()
            .all(|verdict| !verdict.allowed && !verdict.cached)
    );
    assert!(
        verdicts
            .iter()
            .any(|verdict| verdict.retry_after() == Some(SECOND * 600))
    );
}

/// Another server may know nothing, or something else.
#[tokio::test(start_paused = true)]
async fn a_new_connection_makes_every_refusal_void() {
    let (far, cache) = refused("key").await;
    assert!(ask(&cache, request("key")).await.cached);
    far.epoch.fetch_add(1, Ordering::SeqCst);
    assert!(at_once(&cache, request("key")).is_none());
    far.is(State::Late);
    let mut from_before = cache.acquire(request("key"));
    assert!(waits(&mut from_before));
    far.epoch.fetch_add(1, Ordering::SeqCst);
    assert!(at_once(&cache, request("key")).is_none());
    far.is(State::Answers);
    assert!(!from_before.await.unwrap().allowed);
    assert!(
        at_once(&cache, request("key")).is_none(),
        "what was asked before is not kept either"
    );
    assert!(!ask(&cache, request("key")).await.cached);
    assert!(ask(&cache, request("key")).await.cached);
}

/// A cost, a block that came between, and the key itself: of what is on its way for one key, the
/// newest is kept.
#[tokio::test(start_paused = true)]
async fn of_two_answers_the_newer_is_kept() {
    let (far, cache) = cached();
    let request = request("key").with_block(SECOND * 100);
    let _ = (ask(&cache, request).await, ask(&cache, request).await);
    tokio::time::advance(SECOND * 2).await;
    far.is(State::Late);
    let mut older = cache.acquire(request);
    assert!(waits(&mut older));
    tokio::time::advance(MILLISECOND * 500).await;
    let mut newer = cache.acquire(request);
    assert!(waits(&mut newer));
    far.is(State::Answers);
    assert_eq!(
        newer.await.unwrap().retry_after(),
        Some(MILLISECOND * 97_500)
    );
    assert_eq!(older.await.unwrap().retry_after(), Some(SECOND * 98));
    tokio::time::advance(MILLISECOND * 800).await;
    let kept = ask(&cache, request).await;
    assert!(
        kept.cached && kept.retry_after() == Some(MILLISECOND * 96_700),
        "{kept:?}"
    );
}

//! Waiting: the queue is that of the key that refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_lite_free::block_on_without_a_runtime;
use futures_util::poll;
use ratelimit_runtime::store::{Answer, Request, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, Store,
    rate_limit,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::support::layer::forward;

#[rate_limit(window = "1s", max = 1000)]
#[rate_limit(key = "<user>", window = "10s", max = 1, wait = "30s")]
async fn serve(user: &str) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_waiter_does_not_stall_a_whole_function() {
    RateLimiter::memory()
        .scope(async {
            serve("alice").await.unwrap();
            let start = Instant::now();
            let waiting = async {
                serve("alice").await.unwrap();
                start.elapsed()
            };
            let others = async {
                sleep(Duration::from_millis(10)).await;
                for user in 0..100 {
                    serve(&user.to_string()).await.unwrap();
                }
                start.elapsed()
            };
            let (waited, served) = tokio::join!(waiting, others);
            assert!(
                served < Duration::from_secs(1),
                "others were held up for {served:?}"
            );
            assert!(
                waited >= Duration::from_secs(10) && waited < Duration::from_secs(11),
                "{waited:?}"
            );
        })
        .await;
}

#[rate_limit(window = "10s", max = 2, wait = "60s", name = "both")]
#[rate_limit(key = "<user>", window = "40s", max = 1, wait = "60s", name = "each")]
async fn twice_limited(user: &str) -> Outcome {
    Ok(())
}

/// A caller who moves on to another key leaves the queue of the first to the callers there.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_another_key_refuses_moves_to_its_queue() {
    RateLimiter::memory()
        .scope(async {
            twice_limited("alice").await.unwrap();
            twice_limited("bob").await.unwrap();
            let start = Instant::now();
            let alice = async {
                twice_limited("alice").await.unwrap();
                start.elapsed()
            };
            let carol = async {
                sleep(Duration::from_millis(1)).await;
                twice_limited("carol").await.unwrap();
                start.elapsed()
            };
            let (alice, carol) = tokio::join!(alice, carol);
            assert_eq!(
                carol.as_secs(),
                10,
                "carol waits for the common limit alone: {carol:?}"
            );
            assert_eq!(alice.as_secs(), 40, "alice waits for her own: {alice:?}");
        })
        .await;
}

const SECOND: Duration = Duration::from_secs(1);

fn patient(max: u64, window: Duration, patience: Duration) -> Rule {
    Rule::new("patient", Limit::new(max, window)).with_wait(patience)
}

#[tokio::test(start_paused = true)]
async fn no_caller_waits_longer_than_its_rule_says() {
    let (limiter, key) = (RateLimiter::memory(), Key::global());
    let rule = patient(1, SECOND * 10, SECOND * 2);
    let _ = limiter.acquire(&rule, &key).await.unwrap();
    let asked = Instant::now();
    let refused = limiter.acquire(&rule, &key).await.unwrap_err();
    assert_eq!(
        asked.elapsed(),
        Duration::ZERO,
        "a wait that cannot succeed is not begun"
    );
    assert!(refused.retry_after().unwrap() > SECOND * 2);

    // Behind a caller with a longer wait, it ends all the same.
    let ahead = tokio::spawn({
        let (limiter, long, key) = (
            limiter.clone(),
            patient(1, SECOND * 10, SECOND * 60),
            key.clone(),
        );
        async move { limiter.acquire(&long, &key).await.map(drop) }
    });
    tokio::task::yield_now().await;
    let asked = Instant::now();
    assert!(limiter.acquire(&rule, &key).await.is_err());
    assert!(
        asked.elapsed() <= SECOND * 2 + Duration::from_millis(2),
        "{:?}",
        asked.elapsed()
    );
    ahead.await.unwrap().unwrap();
}

/// One that comes at the moment at which the first leaves is behind those who have waited.
#[tokio::test(start_paused = true)]
async fn the_next_one_keeps_the_place_when_the_first_gives_up() {
    let (limiter, key) = (RateLimiter::memory(), Key::global());
    let rule = patient(1, SECOND * 10, SECOND * 15);
    let call = || Box::pin(limiter.acquire(&rule, &key));
    let _ = call().await.unwrap();
    let (mut first, mut next) = (call(), call());
    assert!(poll!(&mut first).is_pending() && poll!(&mut next).is_pending());
    sleep(SECOND * 5).await;
    drop(first);
    let mut newcomer = call();
    assert!(poll!(&mut newcomer).is_pending());
    tokio::select! {
        next = next => assert!(next.is_ok()),
        _ = newcomer => panic!("it was the last to come"),
    }
}

/// So many callers of one rule, in the order of their numbers: whether each was admitted, and after
/// how many seconds.
fn queue(limiter: &RateLimiter, rule: &Rule, callers: usize) -> JoinSet<(usize, bool, u64)> {
    let (start, rule) = (Instant::now(), Arc::new(rule.clone()));
    let mut waiting = JoinSet::new();
    for number in 0..callers {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        waiting.spawn(async move {
            let admitted = limiter.acquire(&rule, &Key::global()).await.is_ok();
            (number, admitted, start.elapsed().as_secs())
        });
    }
    waiting
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_their_order_and_do_not_all_ask_at_once() {
    // Ten units come free at once, or each at a microsecond of its own.
    for (algorithm, moments) in [
        (Algorithm::FixedWindow, 1_000 / 10),
        (Algorithm::SlidingWindow, 1_000),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let limiter = RateLimiter::with_store(store.clone());
        let rule = patient(10, SECOND, SECOND * 3600).with_algorithm(algorithm);
        for (number, admitted, seconds) in queue(&limiter, &rule, 1_000).join_all().await {
            let turn = u64::try_from(number / 10).unwrap();
            assert!(
                admitted && seconds.abs_diff(turn) <= 1,
                "{number} after {seconds} s by {algorithm}"
            );
        }
        // One admission for each; each refusal was waited for by the first in line alone. All who
        // asked before the line was there asked once more.
        let asked = store.calls();
        assert!(
            asked <= 1_000 + moments + 20,
            "{asked} questions for 1,000 calls by {algorithm}"
        );
    }
}

/// A memory that answers after a while, as a distant server does.
struct Distant(MemoryStore, AtomicU64);

impl Store for Distant {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Answer::later(async move {
            sleep(Duration::from_millis(5)).await;
            self.0.acquire(request).await
        })
    }

    forward!(0: peek, reset);
}

/// One caller of many is too many for a moment. Those after it come at half of what the rule
/// admits, but faster than the store answers one question after the other.
#[tokio::test(start_paused = true)]
async fn a_queue_before_a_distant_store_ends_where_the_limit_has_room() {
    let in_flight = patient(100_000, SECOND * 3600, SECOND).with_concurrent(100);
    for rule in [patient(100, SECOND / 10, SECOND), in_flight] {
        let store = Arc::new(Distant(MemoryStore::new(), AtomicU64::new(0)));
        let limiter = RateLimiter::with_store(Arc::clone(&store));
        let mut calls = JoinSet::new();
        for number in 0..2_000 {
            if number > 100 {
                sleep(Duration::from_millis(2)).await;
            }
            let (limiter, rule) = (limiter.clone(), rule.clone());
            calls.spawn(async move {
                let key = Key::global();
                if rule.concurrent().is_none() {
                    return limiter.acquire(&rule, &key).await.is_ok();
                }
                let permit = limiter.enter(&rule, &key).await;
                sleep(SECOND / 10).await;
                permit.is_ok()
            });
        }
        let admitted = calls.join_all().await;
        let admitted = admitted.iter().filter(|is_admitted| **is_admitted);
        assert_eq!(admitted.count(), 2_000, "{rule:?}");
        let asked = store.1.load(Ordering::SeqCst);
        assert!(asked < 2_100, "{asked} questions of 2,000 calls: {rule:?}");
    }
}

/// The room that is left is enough for each of the light calls, and never for the heavy one before
/// them.
#[tokio::test(start_paused = true)]
async fn light_calls_do_not_pass_a_heavy_one_for_long() {
    let store = Distant(MemoryStore::new(), AtomicU64::new(0));
    let limiter = RateLimiter::with_store(store);
    let call = |cost, delay| {
        let (limiter, rule) = (limiter.clone(), patient(10, 10 * SECOND, 60 * SECOND));
        async move {
            sleep(delay).await;
            let start = Instant::now();
            let admitted = limiter.acquire(&rule.with_cost(cost), &Key::global()).await;
            admitted.map(|_| start.elapsed())
        }
    };
    call(10, Duration::ZERO).await.unwrap();
    let first = tokio::spawn(call(1, SECOND / 100));
    let heavy = tokio::spawn(call(10, SECOND / 50));
    let mut light = JoinSet::new();
    for number in 0..500 {
        light.spawn(call(1, SECOND / 10 * (number + 1)));
    }
    first.await.unwrap().unwrap();
    let waited = heavy.await.unwrap().unwrap();
    assert!(waited < 25 * SECOND, "{waited:?}");
}

/// A key has room for 1,000 waiters. A unit that comes free belongs to those who wait, not to a
/// caller for whom there is no room.
#[tokio::test(start_paused = true)]
async fn callers_for_whom_the_queue_has_no_room_are_refused_at_once() {
    let (limiter, rule) = (
        RateLimiter::memory(),
        patient(1, SECOND * 3600, SECOND * 7200),
    );
    let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
    let mut waiting = queue(&limiter, &rule, 1_100);
    for _ in 0..100 {
        let (_, admitted, seconds) = waiting.join_next().await.unwrap().unwrap();
        assert_eq!((admitted, seconds), (false, 0));
    }
    sleep(SECOND).await;
    assert!(limiter.reset(&rule, &Key::global()).await.unwrap());
    let refused = limiter.acquire(&rule, &Key::global()).await.unwrap_err();
    // When the first of them asks again.
    let wait = refused.retry_after().unwrap();
    assert!(wait > SECOND * 3590 && wait <= SECOND * 3600, "{wait:?}");
    assert!(
        waiting.join_next().await.unwrap().unwrap().1,
        "the first in the queue has the unit"
    );
    assert!(
        limiter.acquire(&rule, &Key::of("bob")).await.is_ok(),
        "another key has no queue"
    );
}

/// A limiter has room for 50,000 waiters. However many wait for other keys, the first 16 of a key
/// find room.
#[tokio::test(start_paused = true)]
async fn nobody_fills_the_room_of_others() {
    let limiter = RateLimiter::memory();
    let rule = Arc::new(patient(1, SECOND * 3600, SECOND * 7200));
    let wait = |key: u64| {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        async move { limiter.acquire(&rule, &Key::of(&key)).await.is_ok() }
    };
    let mut flood = JoinSet::new();
    for key in 0..50 {
        assert!(wait(key).await);
        for _ in 0..1_000 {
            flood.spawn(wait(key));
        }
    }
    sleep(SECOND).await;
    assert!(flood.try_join_next().is_none(), "all have room");
    assert!(wait(50).await);
    let mut others = JoinSet::new();
    for _ in 0..20 {
        others.spawn(wait(50));
    }
    sleep(SECOND).await;
    let refused = std::iter::from_fn(|| others.try_join_next());
    let refused: Vec<bool> = refused.map(Result::unwrap).collect();
    assert_eq!(refused, [false; 4]);
}

/// A store that counts seconds says at last that its refusal ends now.
struct Coarse(MemoryStore, AtomicU64);

impl Store for Coarse {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        assert!(
            self.1.fetch_add(1, Ordering::SeqCst) < 2_000,
            "it asks again and again"
        );
        Answer::later(async move {
            let mut verdict = self.0.acquire(request).await?;
            verdict.retry_after_us -= verdict.retry_after_us % 1_000_000;
            Ok(verdict)
        })
    }

    forward!(0: peek, reset);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_ends_now_is_followed_by_a_pause() {
    let limiter = RateLimiter::with_store(Coarse(MemoryStore::new(), AtomicU64::new(0)));
    let (rule, start) = (patient(1, SECOND * 3 / 2, SECOND * 3), Instant::now());
    for _ in 0..2 {
        assert!(limiter.acquire(&rule, &Key::global()).await.is_ok());
    }
    let waited = start.elapsed();
    assert!(
        waited >= SECOND * 3 / 2 && waited < SECOND * 2,
        "{waited:?}"
    );
}

/// During an outage there is no room to wait for: the policy answers waiters whose time is up.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_in_the_queue_during_an_outage_ends_by_the_policy() {
    for (policy, admitted) in [(OnUnavailable::Allow, true), (OnUnavailable::Deny, false)] {
        let store = FaultyStore::new(MemoryStore::new());
        let limiter = RateLimiter::builder()
            .store(store.clone())
            .on_unavailable(policy)
            .build()
            .unwrap();
        let key = Key::global();
        let front = Rule::new("queue", Limit::per_hour(1)).with_wait(Duration::from_secs(7200));
        let short = Rule::new("queue", Limit::per_hour(1)).with_wait(Duration::from_secs(3605));
        let _ = limiter.acquire(&front, &key).await.unwrap();
        let first = tokio::spawn({
            let (limiter, front, key) = (limiter.clone(), front.clone(), key.clone());
            async move { limiter.acquire(&front, &key).await }
        });
        sleep(Duration::from_secs(1)).await;
        let second = tokio::spawn({
            let (limiter, key) = (limiter.clone(), key.clone());
            async move { limiter.acquire(&short, &key).await }
        });
        // The first gets the unit at 3600 s, and the second waits for its own when the store goes
        // away.
        let _ = first.await.unwrap().unwrap();
        store.fail();
        let answer = second.await.unwrap();
        match (&answer, admitted) {
            (Ok(decision), true) => assert!(decision.is_degraded()),
            (Err(RateLimitError::Unavailable(_)), false) => {}
            // It may have learned of its refusal before the store went away.
            (Err(RateLimitError::Exceeded(refusal)), _) => assert!(!refusal.is_degraded()),
            _ => panic!("{policy}: {answer:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn under_deny_a_call_waits_for_the_store_to_come_back() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(store.clone());
    let rule = patient(2, SECOND * 3600, SECOND * 60).with_on_unavailable(OnUnavailable::Deny);
    let call = || {
        let (limiter, rule) = (limiter.clone(), rule.clone());
        tokio::spawn(async move { limiter.acquire(&rule, &Key::global()).await })
    };
    store.fail();
    let calls = [call(), call(), call()];
    sleep(SECOND * 30).await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    let asked = store.calls();
    assert!(asked < 4, "{asked} questions");
    store.heal();
    sleep(SECOND).await;
    let mut admitted = 0;
    for call in calls {
        assert!(call.is_finished());
        match call.await.unwrap() {
            Ok(decision) => admitted += u64::from(!decision.is_degraded()),
            Err(RateLimitError::Exceeded(_)) => {}
            error => panic!("{error:?}"),
        }
    }
    assert_eq!(admitted, 2);

    // What may have been charged is not charged again.
    let denied_after = async || {
        let start = Instant::now();
        let denied = call().await.unwrap();
        assert!(
            matches!(denied, Err(RateLimitError::Unavailable(_))),
            "{denied:?}"
        );
        start.elapsed().as_secs()
    };
    store.hang();
    assert_eq!(denied_after().await, 0);
    store.fail();
    assert_eq!(denied_after().await, 60);
    let start = Instant::now();
    let others = rule.with_on_unavailable(OnUnavailable::Local);
    let decision = limiter.acquire(&others, &Key::global()).await.unwrap();
    assert!(decision.is_degraded());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Also where another refusal lasts longer, whose rule waits.
#[tokio::test(start_paused = true)]
async fn a_rule_without_wait_refuses_at_once_whether_others_wait_or_not() {
    let limiter = RateLimiter::memory();
    let hasty = Rule::new("hasty", Limit::new(1, Duration::from_secs(10)));
    let patient = Rule::new("patient", Limit::new(1, Duration::from_secs(20)));
    let patient = patient.with_wait(Duration::from_secs(60));
    let key = Key::global();
    let both = || limiter.acquire_all([(&hasty, &key), (&patient, &key)]);
    assert!(both().await.is_ok());
    let start = Instant::now();
    let first = async || {
        let error = both().await.unwrap_err();
        assert_eq!(error.decision().unwrap().rule(), "hasty");
        assert_eq!(start.elapsed(), Duration::ZERO);
    };
    first().await;
    let waiting = async || limiter.acquire(&patient, &key).await.map(drop);
    let behind = async {
        tokio::task::yield_now().await;
        first().await;
    };
    let (waited, ()) = tokio::join!(waiting(), behind);
    waited.unwrap();
    assert_eq!(start.elapsed().as_secs(), 20);
}

#[test]
fn waiting_without_a_runtime_or_its_timers_is_misconfigured_and_no_panic() {
    let rule = Rule::new("wait", Limit::per_hour(1)).with_wait(Duration::from_secs(1));
    let limiter = RateLimiter::memory();
    let acquire = async || limiter.acquire(&rule, &Key::global()).await;
    let untimed = tokio::runtime::Builder::new_current_thread().build();
    for (outcome, says) in [
        (block_on_without_a_runtime(acquire()), "none is running"),
        (untimed.unwrap().block_on(acquire()), "`enable_time`"),
    ] {
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, RateLimitError::Misconfigured(_)),
            "{error:?}"
        );
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// On several threads callers with the turn are answered in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_on_several_threads_are_admitted_as_soon_as_there_is_room() {
    const WINDOW: Duration = Duration::from_millis(50);
    let limiter = RateLimiter::memory();
    let started = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let (limiter, rule) = (limiter.clone(), patient(20, WINDOW, SECOND * 20));
        calls.spawn(async move { limiter.acquire(&rule, &Key::global()).await.map(drop) });
    }
    while let Some(admitted) = calls.join_next().await {
        admitted.unwrap().unwrap();
    }
    // Each caller that a queue passes by would hold it up for a second.
    let took = started.elapsed();
    assert!(
        took < SECOND * 3,
        "{took:?}, and there was room after {:?}",
        WINDOW * 9
    );
}

/// Drives a future as a program without tokio does.
pub(crate) mod futures_lite_free {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    pub(crate) fn block_on_without_a_runtime<F: Future>(future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }
}

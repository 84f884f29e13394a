//! Waiting: the queue is that of the key that refuses.

use std::time::Duration;

use futures_lite_free::block_on_without_a_runtime;
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, rate_limit};
use tokio::time::{Instant, sleep, timeout};

use crate::Outcome;

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
            assert!(served < Duration::from_secs(1), "others were held up for {served:?}");
            assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(11), "{waited:?}");
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
            assert_eq!(carol.as_secs(), 10, "carol waits for the common limit alone: {carol:?}");
            assert_eq!(alice.as_secs(), 40, "alice waits for her own: {alice:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn waiters_of_one_key_are_served_in_their_order_and_ask_once_each() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("order", Limit::new(1, Duration::from_secs(1))).with_wait(Duration::from_secs(60));
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let (limiter, rule) = (limiter.clone(), rule.clone());
        tasks.push(tokio::spawn(async move {
            let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
            start.elapsed().as_secs()
        }));
        tokio::task::yield_now().await;
    }
    for (nth, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap(), nth as u64);
    }
    assert!(store.calls() <= 41, "20 waiters asked {} times", store.calls());
}

/// During an outage there are no slots to wait for: the policy answers those whose time is up in
/// the queue, too.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_in_the_queue_during_an_outage_ends_by_the_policy() {
    for (policy, admitted) in [(OnUnavailable::Allow, true), (OnUnavailable::Deny, false)] {
        let store = FaultyStore::new(MemoryStore::new());
        let limiter = RateLimiter::builder().store(store.clone()).on_unavailable(policy).build().unwrap();
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
        // The first gets the slot at 3600 s, and the second waits for its own when the store goes
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

#[test]
fn waiting_without_timers_is_misconfigured_and_no_panic() {
    let rule = Rule::new("wait", Limit::per_hour(1)).with_wait(Duration::from_secs(1));
    let limiter = RateLimiter::memory();
    let misconfigured = |answer: Result<_, RateLimitError>| {
        let error = answer.map(drop).unwrap_err();
        assert!(matches!(error, RateLimitError::Misconfigured(_)), "{error:?}");
        error.to_string()
    };
    let words = misconfigured(block_on_without_a_runtime(limiter.acquire(&rule, &Key::global())));
    assert!(words.contains("tokio runtime"), "{words}");
    let without_timers = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let words = misconfigured(without_timers.block_on(limiter.acquire(&rule, &Key::global())));
    assert!(words.contains("enable_all"), "{words}");
}

/// Queues are per key, and gone with those who stood in them.
#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_leaves_its_place_to_the_next() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("dropped", Limit::per_second(1)).with_wait(Duration::from_secs(60));
    let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
    for _ in 0..100 {
        assert!(timeout(Duration::from_millis(5), limiter.acquire(&rule, &Key::global())).await.is_err());
    }
    let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
}

/// What a program without tokio does with a future.
mod futures_lite_free {
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

    pub(super) fn block_on_without_a_runtime<F: Future>(future: F) -> F::Output {
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

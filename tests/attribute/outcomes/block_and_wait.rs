//! A refused call blocks its key, or waits.

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::{Limit, RateLimiter, Rule, key, rate_limit};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{MINUTE, Outcome, SECOND, alone, pass, refusal, retry_after};

#[rate_limit(name = "strict", key = "<who>", window = "1s", max = 1, block = "10m", shadow = dry)]
async fn strict(who: &str, dry: bool) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_block_outlives_the_window_and_refused_calls_do_not_extend_it() {
    alone(async {
        assert!(strict("a", false).await.is_ok());
        let refused = strict("a", false).await;
        assert!(refusal(&refused).unwrap().is_blocked());
        assert_eq!(retry_after(&refused), 10 * MINUTE);
        for minute in 1..10 {
            pass(MINUTE).await;
            assert_eq!(
                retry_after(&strict("a", false).await),
                (10 - minute) * MINUTE
            );
        }
        assert!(strict("b", false).await.is_ok());
        pass(Duration::from_millis(59_999)).await;
        assert_eq!(
            retry_after(&strict("a", false).await),
            Duration::from_millis(1)
        );
        pass(Duration::from_millis(1)).await;
        assert!(strict("a", false).await.is_ok());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn neither_shadow_nor_peek_blocks() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("strict", Limit::per_second(1)).with_block(10 * MINUTE);
    limiter
        .scope(async {
            let who = "a";
            for _ in 0..5 {
                assert!(strict(who, true).await.is_ok());
                let seen = limiter.peek(&rule, &key!("<who>")).await.unwrap();
                assert!(!seen.is_allowed() && !seen.is_blocked());
            }
            pass(SECOND).await;
            assert!(strict("a", false).await.is_ok());
        })
        .await;
}

#[rate_limit(key = "<who>", window = "1s", max = 1, wait = "2500ms", limiter = limiter)]
async fn patient(limiter: RateLimiter, who: &'static str) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_stops_waiting_is_charged_nothing() {
    let limiter = RateLimiter::memory();
    assert!(patient(limiter.clone(), "a").await.is_ok());
    let first = tokio::spawn(patient(limiter.clone(), "a"));
    tokio::task::yield_now().await;
    let second = tokio::spawn(patient(limiter.clone(), "a"));
    tokio::task::yield_now().await;
    pass(SECOND / 2).await;
    first.abort();
    let start = Instant::now();
    assert!(second.await.unwrap().is_ok());
    assert!(
        start.elapsed() <= SECOND / 2 + Duration::from_millis(5),
        "{:?}",
        start.elapsed()
    );
}

#[rate_limit(window = "60s", max = 1, count = "err", wait = "5s", limiter = limiter)]
async fn one_at_a_time(limiter: RateLimiter, go: Arc<Notify>) -> Outcome {
    go.notified().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_released_reservation_ends_a_wait() {
    let (limiter, go) = (RateLimiter::memory(), Arc::new(Notify::new()));
    let first = tokio::spawn(one_at_a_time(limiter.clone(), Arc::clone(&go)));
    tokio::task::yield_now().await;
    let start = Instant::now();
    let second = tokio::spawn(one_at_a_time(limiter, Arc::clone(&go)));
    tokio::time::sleep(SECOND).await;
    go.notify_one();
    assert!(first.await.unwrap().is_ok());
    go.notify_one();
    assert!(second.await.unwrap().is_ok());
    assert!(
        start.elapsed() <= SECOND + Duration::from_millis(55),
        "{:?}",
        start.elapsed()
    );
}

#[rate_limit(name = "short", window = "1s", max = 1, wait = "3s")]
#[rate_limit(name = "long", window = "2s", max = 1, wait = "10s")]
async fn stacked() -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stacked_attributes_wait_for_all_up_to_the_shortest_wait() {
    alone(async {
        let start = Instant::now();
        for seconds in [0, 2, 4] {
            assert!(stacked().await.is_ok());
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
    })
    .await;
}

#[rate_limit(
    name = "patient above",
    key = "<above>",
    window = "2s",
    max = 1,
    wait = "5s"
)]
#[rate_limit(name = "impatient below", key = "<below>", window = "1s", max = 1)]
async fn half_patient(above: u32, below: u32) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_a_stack_an_attribute_waits_for_its_own_limits_alone() {
    alone(async {
        assert!(half_patient(1, 1).await.is_ok());
        let start = Instant::now();
        assert!(
            half_patient(2, 1).await.is_err(),
            "the attribute below does not wait"
        );
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(
            half_patient(1, 2).await.is_ok(),
            "the attribute above waits"
        );
        assert_eq!(start.elapsed(), 2 * SECOND);
    })
    .await;
}

//! `count`: a unit is taken before the body runs, and given back if the outcome does not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ratelimit_runtime::{Key, Limit, RateLimiter, Rule, rate_limit};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Failure, MICROSECOND, MINUTE, Outcome, alone, pass, refusal, retry_after};

#[rate_limit(key = "<user>", window = "60s", max = 3, count = "err")]
async fn log_in(user: &str, password: &str) -> Outcome {
    if password == "secret" {
        Ok(())
    } else {
        Err(Failure::Wrong)
    }
}

#[tokio::test(start_paused = true)]
async fn failed_logins_are_limited_and_successful_ones_are_not() {
    alone(async {
        for _ in 0..20 {
            assert!(log_in("alice", "secret").await.is_ok());
            pass(MICROSECOND).await;
        }
        for _ in 0..3 {
            assert!(matches!(
                log_in("alice", "guess").await,
                Err(Failure::Wrong)
            ));
            pass(Duration::from_secs(1)).await;
        }
        let refused = log_in("alice", "secret").await;
        assert_eq!(
            retry_after(&refused),
            Duration::from_secs(57),
            "the first failure leaves the window"
        );
        assert!(log_in("bob", "secret").await.is_ok());
        pass(Duration::from_secs(57)).await;
        assert!(log_in("alice", "secret").await.is_ok());
        assert!(matches!(
            log_in("alice", "guess").await,
            Err(Failure::Wrong)
        ));
        assert!(refusal(&log_in("alice", "secret").await).is_some());
    })
    .await;
}

#[rate_limit(window = "60s", max = 2, count = "ok")]
async fn sign_up(works: bool) -> Outcome {
    if works { Ok(()) } else { Err(Failure::Wrong) }
}

#[rate_limit(
    window = "60s", max = 1, count = |outcome| matches!(outcome, Err(status) if *status >= 500),
    on_refused = |_| Err(429)
)]
async fn relay(status: u16) -> Result<u16, u16> {
    if status < 400 {
        Ok(status)
    } else {
        Err(status)
    }
}

#[tokio::test(start_paused = true)]
async fn successes_count_by_ok_and_a_closure_chooses() {
    alone(async {
        for works in [false, true, false, false, true] {
            assert!(refusal(&sign_up(works).await).is_none());
        }
        assert!(refusal(&sign_up(false).await).is_some());
        for status in [200, 404, 302, 400, 503] {
            assert_ne!(relay(status).await, Err(429));
        }
        assert_eq!(relay(200).await, Err(429));
    })
    .await;
}

struct Gate {
    guesses: AtomicUsize,
    open: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            guesses: AtomicUsize::new(0),
            open: Semaphore::new(0),
        }
    }
}

impl Gate {
    fn guesses(&self) -> usize {
        self.guesses.load(Ordering::SeqCst)
    }
}

/// Waits at the gate before it answers.
#[rate_limit(window = "60s", max = 5, count = "err", block = "10m", limiter = limiter)]
async fn guess(limiter: RateLimiter, gate: Arc<Gate>, right: bool) -> Outcome {
    gate.guesses.fetch_add(1, Ordering::SeqCst);
    let _permit = gate.open.acquire().await.map_err(|_| Failure::Wrong)?;
    if right { Ok(()) } else { Err(Failure::Wrong) }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_parallel_guesses_cannot_pass_a_limit_of_five() {
    let (limiter, gate) = (RateLimiter::memory(), Arc::new(Gate::default()));
    let mut guesses = JoinSet::new();
    for _ in 0..1000 {
        guesses.spawn(guess(limiter.clone(), Arc::clone(&gate), false));
    }
    for _ in 0..995 {
        let refused = guesses.join_next().await.unwrap().unwrap();
        assert!(
            !refusal(&refused).unwrap().is_blocked(),
            "the five under way may all be right"
        );
        assert_eq!(retry_after(&refused), Duration::from_millis(50));
    }
    assert_eq!(gate.guesses(), 5);
    gate.open.add_permits(1000);
    while let Some(guess) = guesses.join_next().await {
        assert!(matches!(guess.unwrap(), Err(Failure::Wrong)));
    }
    let refused = guess(limiter, Arc::clone(&gate), true).await;
    assert!(refusal(&refused).unwrap().is_blocked());
    assert_eq!(retry_after(&refused), 10 * MINUTE);
    assert_eq!(gate.guesses(), 5);
}

#[rate_limit(window = "60s", max = 1, count = "ok", limiter = limiter)]
async fn never_ends(limiter: &RateLimiter) -> Outcome {
    std::future::pending().await
}

#[rate_limit(window = "60s", max = 1, count = "ok", limiter = limiter)]
async fn panics(limiter: RateLimiter, now: bool) -> Outcome {
    assert!(!now, "on purpose");
    Err(Failure::Wrong)
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_and_a_panic_count() {
    let limiter = RateLimiter::memory();
    drop(never_ends(&limiter));
    let cancelled = tokio::time::timeout(Duration::from_secs(1), never_ends(&limiter)).await;
    assert!(
        cancelled.is_err(),
        "it was not asked for before it was polled, and ran"
    );
    let refused = never_ends(&limiter).await;
    assert_eq!(
        retry_after(&refused),
        Duration::from_secs(59),
        "it is charged, not only reserved"
    );

    assert!(matches!(
        panics(limiter.clone(), false).await,
        Err(Failure::Wrong)
    ));
    pass(MICROSECOND).await;
    assert!(
        tokio::spawn(panics(limiter.clone(), true))
            .await
            .unwrap_err()
            .is_panic()
    );
    assert_eq!(retry_after(&panics(limiter, false).await), MINUTE);
}

#[rate_limit(name = "failures", window = "60s", max = 2, count = "err")]
#[rate_limit(name = "successes", window = "60s", max = 3, count = "ok")]
#[rate_limit(name = "calls", window = "60s", max = 10)]
#[rate_limit(name = "sometimes", window = "60s", max = 10, count = Result::is_ok, when = sometimes)]
async fn stacked(works: bool, sometimes: bool) -> Outcome {
    if works { Ok(()) } else { Err(Failure::Wrong) }
}

#[tokio::test(start_paused = true)]
async fn stacked_attributes_settle_each_by_its_own_count() {
    let limiter = RateLimiter::memory();
    let used = async |name: &'static str, max| {
        let rule = Rule::new(name, Limit::per_minute(max));
        max - limiter
            .peek(&rule, &Key::global())
            .await
            .unwrap()
            .remaining()
    };
    limiter
        .scope(async {
            for (works, sometimes) in [(true, true), (false, true), (true, false)] {
                assert_eq!(stacked(works, sometimes).await.is_ok(), works);
            }
            let all = [
                used("failures", 2).await,
                used("successes", 3).await,
                used("calls", 10).await,
            ];
            assert_eq!((all, used("sometimes", 10).await), ([1, 2, 3], 1));
            assert!(stacked(false, true).await.is_err());
            let refused = stacked(true, true).await;
            assert_eq!(refusal(&refused).unwrap().rule(), "failures");
            let all = [
                used("failures", 2).await,
                used("successes", 3).await,
                used("calls", 10).await,
            ];
            assert_eq!(
                (all, used("sometimes", 10).await),
                ([2, 2, 4], 1),
                "a refused call is charged nowhere"
            );
        })
        .await;
}

#[rate_limit(name = "in shadow", window = "60s", max = 2, count = "err", shadow)]
async fn in_shadow(works: bool) -> Outcome {
    if works { Ok(()) } else { Err(Failure::Wrong) }
}

#[tokio::test(start_paused = true)]
async fn shadow_records_counted_outcomes_and_refuses_nothing() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("in shadow", Limit::per_minute(2));
    limiter
        .scope(async {
            for (works, left) in [
                (true, 2),
                (false, 1),
                (true, 1),
                (false, 0),
                (true, 0),
                (false, 0),
            ] {
                assert_eq!(in_shadow(works).await.is_ok(), works);
                assert_eq!(
                    limiter
                        .peek(&rule, &Key::global())
                        .await
                        .unwrap()
                        .remaining(),
                    left
                );
            }
        })
        .await;
}

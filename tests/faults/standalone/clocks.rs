//! Clocks that are set while a server runs. A limit is exact on the server's clock; these show what
//! that means for those who live by another.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, Rule};
use tokio::time::sleep;

use crate::harness::{Account, LIMIT, Load, POLICIES, Row, nothing_is_left_on};
use crate::support::clock::ServerClock;

/// How long a cached refusal is believed.
const STALE: Duration = Duration::from_secs(1);
/// For machines that are busy.
pub(super) const SLACK: Duration = Duration::from_millis(1_500);

/// What was logged is older by the step, and its slots are free by so much earlier: a window that
/// holds the step admits up to `max` before and `max` after it. Not more, and no caller is turned
/// away.
pub(crate) async fn clock_set_forward() -> Row {
    const FAULT: &str = "clock set forward by 5 s";
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    let mut load = Load::on(&server.url()).await;
    load.fault();
    load.store_forgets();
    clock.set_ms(5_000);
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    let account = load.end().await;
    account.assert_unnoticed();

    // A slot that was used at t is free at t + window − step, and not before.
    let (window, step) = (Duration::from_secs(3), Duration::from_secs(2));
    let spent = Spent::on(&server.url(), window).await;
    clock.set_ms(7_000);
    let free = spent.until_admitted().await + step;
    assert!(
        free >= window && free <= window + STALE + SLACK,
        "free after {free:?}, the step included"
    );
    drop(spent);
    nothing_is_left_on(&server);
    account.row(FAULT)
}

/// What was admitted counts until the clock has caught up, and then for its time: a key that was
/// used up admits nothing for as long as the step was, and a window.
pub(crate) async fn clock_set_back() -> Row {
    const FAULT: &str = "clock set back by 5 s";
    let clock = ServerClock::new();
    clock.set_ms(60_000);
    let server = clock.server(&[]);
    let mut load = Load::on(&server.url()).await;
    load.fault();
    clock.set_ms(55_000);
    load.healed();
    load.recover(Duration::from_millis(500)).await;
    let account = load.end().await;
    account.assert_unnoticed();
    let gap = longest_without_admission(&account);
    let step = Duration::from_secs(5);
    assert!(
        gap <= step + LIMIT.window() + STALE + SLACK,
        "the hot keys admitted nothing for {gap:?}"
    );

    let (window, step) = (Duration::from_secs(1), Duration::from_secs(2));
    let spent = Spent::on(&server.url(), window).await;
    clock.set_ms(53_000);
    let free = spent.until_admitted().await;
    assert!(
        free >= step + window && free <= step + window + STALE + SLACK,
        "free after {free:?}"
    );
    drop(spent);
    nothing_is_left_on(&server);
    account.row(FAULT)
}

/// The longest time for which the store admitted no call on the hot key of a policy.
fn longest_without_admission(account: &Account) -> Duration {
    let gaps = POLICIES.map(|policy| {
        let mut admitted: Vec<_> = account
            .of(policy)
            .filter(|call| call.hot && call.admitted)
            .map(|call| call.answered)
            .collect();
        admitted.sort_unstable();
        let pairs = admitted.iter().zip(admitted.iter().skip(1));
        pairs
            .map(|(one, next)| next.saturating_sub(*one))
            .max()
            .unwrap_or_default()
    });
    gaps.into_iter().max().unwrap_or_default()
}

/// A limit of 3 that was used up just now.
pub(super) struct Spent {
    limiter: RateLimiter,
    rule: Rule,
    /// Before the first, and after the last of three calls was admitted.
    since: Instant,
}

impl Spent {
    pub(super) async fn on(url: &str, window: Duration) -> Self {
        let builder = RateLimiter::builder()
            .redis(url)
            .timeout(Duration::from_secs(2));
        let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
        limiter.ready().await.unwrap();
        let rule = Rule::new("spent", Limit::new(3, window));
        for _ in 0..3 {
            assert!(limiter.acquire(&rule, &Key::global()).await.is_ok());
        }
        let since = Instant::now();
        assert!(limiter.acquire(&rule, &Key::global()).await.is_err());
        Self {
            limiter,
            rule,
            since,
        }
    }

    /// How long after it was used up a call was admitted again, by the store.
    pub(super) async fn until_admitted(&self) -> Duration {
        loop {
            if let Ok(decision) = self.limiter.acquire(&self.rule, &Key::global()).await {
                assert!(!decision.is_degraded());
                // The first of the three was a little earlier than the last.
                return self.since.elapsed() + Duration::from_millis(50);
            }
            sleep(Duration::from_millis(10)).await;
            assert!(
                self.since.elapsed() < Duration::from_secs(20),
                "never admitted again"
            );
        }
    }
}

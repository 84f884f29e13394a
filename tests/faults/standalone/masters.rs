//! Masters that are replaced by their replicas. The clients' name leads to the new one, as a
//! fail-over makes it.

use std::time::Duration;

use ratelimit_runtime::{
    Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RateLimiterBuilder, Rule,
};
use tokio::time::sleep;

use crate::harness::{Case, Fault, Load, Row, World, nothing_is_left_on};
use crate::support::eventually;
use crate::support::pair::Pair;
use crate::support::redis::RedisServer;

impl World for Pair {
    /// By how many milliseconds the replica's clock is ahead.
    type Setup = Option<i64>;

    async fn start(setup: Option<i64>) -> Self {
        Self::start_with(setup).await
    }

    fn store(&self, builder: RateLimiterBuilder) -> RateLimiterBuilder {
        builder.redis(&self.name.url())
    }

    fn servers(&self) -> Vec<&RedisServer> {
        vec![&self.master, &self.replica]
    }
}

/// The old master says READONLY, and all callers ask for the new one, with every write, by a clock
/// that is this many milliseconds ahead. No window admits more than without, but for a clock that
/// is set forward.
pub(super) fn cases() -> impl Iterator<Item = Case> {
    let fault =
        |name, says, clock| Fault::<Pair>::new(name, says, clock).begins(|pair| pair.fail_over());
    let rows = [
        fault(
            "standalone::failed_over",
            "a replica promoted with all writes, and the old master READONLY",
            None,
        ),
        fault(
            "standalone::failed_over_to_a_clock_ahead",
            "a replica promoted whose clock is 5 s ahead",
            Some(5_000),
        )
        .forgets(),
        fault(
            "standalone::failed_over_to_a_clock_behind",
            "a replica promoted whose clock is 5 s behind",
            Some(-5_000),
        ),
    ];
    rows.into_iter().map(|row| row.case(Fault::play))
}

/// A replica that has lost writes admits again as much as it has lost, and no more.
pub(crate) async fn promoted_without_the_last_writes() -> Row {
    let pair = Pair::start_with(None).await;
    let mut load = Load::on(&pair.name.url()).await;
    let limiter = one_by_one(&pair.name.url()).await;
    let rule = Rule::new("lost", Limit::per_minute(6));
    assert_eq!(admitted(&limiter, &rule, 3).await, 3);
    assert!(eventually(|| pair
        .replica
        .cli(&["ZCARD", "rl1:sw-60s:lost:"])
        == "3"));
    load.fault();
    pair.cut();
    assert_eq!(admitted(&limiter, &rule, 2).await, 2, "these are lost");
    load.go_on(Duration::from_millis(300)).await;
    load.store_forgets();
    pair.promote();
    load.healed();
    load.recover(Duration::from_secs(2)).await;
    assert_eq!(
        admitted(&limiter, &rule, 10).await,
        3,
        "of 6, the replica knew of 3"
    );
    drop(limiter);
    let account = load.end().await;
    account.assert_felt();
    pair.servers().into_iter().for_each(nothing_is_left_on);
    account
        .row("a replica promoted that lost the last 300 ms of writes, and the old master READONLY")
}

/// A limiter that is asked by hand, and asks again.
async fn one_by_one(url: &str) -> RateLimiter {
    let builder = RateLimiter::builder()
        .redis(url)
        .timeout(Duration::from_secs(2));
    let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
    limiter.ready().await.unwrap();
    limiter
}

/// How many of so many calls are admitted, where only those count that the store decides.
async fn admitted(limiter: &RateLimiter, rule: &Rule, calls: usize) -> usize {
    let (mut decided, mut admitted) = (0, 0);
    while decided < calls {
        match limiter.acquire(rule, &Key::global()).await {
            Err(RateLimitError::Unavailable(_)) => sleep(Duration::from_millis(10)).await,
            answer => {
                decided += 1;
                admitted += usize::from(answer.is_ok());
            }
        }
    }
    admitted
}

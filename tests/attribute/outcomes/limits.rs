//! How much: several limits, costs, algorithms and bursts.

use ratelimit_runtime::{RateLimitError, rate_limit};

use super::{Failure, MICROSECOND, MINUTE, Outcome, SECOND, alone, pass, refusal, retry_after};

#[rate_limit(key = "<who>", limits = ["2/1s", "3/1m", "4/1h"])]
async fn several(who: &str) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn several_limits_are_charged_all_or_none() {
    alone(async {
        let refused_by = async || {
            let refused = several("a").await;
            (
                refusal(&refused).unwrap().limit_index(),
                retry_after(&refused),
            )
        };
        assert!(several("a").await.is_ok());
        assert!(several("a").await.is_ok());
        for _ in 0..10 {
            assert_eq!(refused_by().await, (0, SECOND));
        }
        pass(SECOND).await;
        assert!(
            several("a").await.is_ok(),
            "the refused calls were not charged to the longer windows"
        );
        assert_eq!(
            refused_by().await,
            (1, 59 * SECOND),
            "the wait after which all limits admit the call"
        );
        pass(59 * SECOND).await;
        assert!(several("a").await.is_ok());
        assert_eq!(refused_by().await, (2, 59 * MINUTE));
        assert!(several("b").await.is_ok());
    })
    .await;
}

#[rate_limit(name = "above", key = "<who>", window = "1h", max = 1)]
#[rate_limit(name = "below", key = "<who>", window = "1h", max = 1)]
async fn alike(who: &str) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_two_rules_with_equal_retry_after_the_upper_is_named() {
    alone(async {
        alike("alice").await.unwrap();
        assert_eq!(refusal(&alike("alice").await).unwrap().rule(), "above");
    })
    .await;
}

#[rate_limit(window = "60s", max = 10, cost = weight)]
async fn weighs(weight: i64) -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = 10, cost = 5)]
async fn weighs_five() -> Outcome {
    Ok(())
}

#[rate_limit(limits = ["10/1d", "4/60s"], cost = bytes.len() as u128)]
async fn weighs_its_bytes(bytes: &[u8]) -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = quota, cost = weight)]
async fn both_computed(quota: u8, weight: u64) -> Outcome {
    Ok(())
}

fn is_above_the_limit(outcome: &Outcome, expected: (u64, u64)) -> bool {
    match outcome {
        Err(Failure::Limited(error @ RateLimitError::CostExceedsLimit { cost, limit, .. })) => {
            error.retry_after().is_none() && (*cost, *limit) == expected
        }
        _ => false,
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_charged_their_cost() {
    alone(async {
        assert!(weighs(4).await.is_ok());
        pass(SECOND).await;
        assert!(weighs(4).await.is_ok());
        // Two units of the first call have to leave, or all of both.
        assert_eq!(retry_after(&weighs(4).await), 59 * SECOND + MICROSECOND);
        assert_eq!(retry_after(&weighs(10).await), MINUTE + 3 * MICROSECOND);
        assert!(weighs(2).await.is_ok());
        assert!(weighs(0).await.is_ok(), "a cost of 0 charges nothing");
        assert!(weighs(-3).await.is_ok(), "and so does a negative one");
        assert_eq!(retry_after(&weighs(1).await), 59 * SECOND);
        assert!(
            is_above_the_limit(&weighs(11).await, (11, 10)),
            "waiting does not help"
        );

        assert!(weighs_five().await.is_ok());
        assert!(weighs_five().await.is_ok());
        assert!(refusal(&weighs_five().await).is_some());

        assert!(is_above_the_limit(&weighs_its_bytes(&[0; 5]).await, (5, 4)));
        assert!(weighs_its_bytes(&[0; 3]).await.is_ok());
        assert_eq!(
            refusal(&weighs_its_bytes(&[0; 2]).await)
                .unwrap()
                .limit_index(),
            1
        );

        assert!(both_computed(3, 3).await.is_ok());
        assert!(refusal(&both_computed(3, 1).await).is_some());
        assert!(
            both_computed(9, 6).await.is_ok(),
            "a larger quota admits more at once"
        );
        let nothing = both_computed(0, 1).await;
        let refused = refusal(&nothing).expect("a quota of 0 admits nothing");
        assert_eq!((refused.limit(), refused.retry_after()), (0, None));
    })
    .await;
}

/// When calls are admitted, in seconds: one is tried every second.
macro_rules! admitted {
    ($seconds:expr, $($arguments:tt)*) => {{
        #[rate_limit($($arguments)*)]
        async fn call() -> Outcome {
            Ok(())
        }
        alone(async {
            let mut admitted = Vec::new();
            for second in 0..$seconds {
                while call().await.is_ok() {
                    admitted.push(second);
                }
                pass(SECOND).await;
            }
            admitted
        })
        .await
    }};
}

#[tokio::test(start_paused = true)]
async fn the_algorithm_and_its_burst_decide_when_calls_are_admitted() {
    // At ten seconds only the first of three has left: the others are a microsecond or two behind.
    let at = admitted!(21, window = "10s", max = 3, algorithm = "sliding_window");
    assert_eq!(at, [0, 0, 0, 10, 11, 11, 20]);
    let at = admitted!(21, window = "10s", max = 3, algorithm = "fixed_window");
    assert_eq!(at, [0, 0, 0, 10, 10, 10, 20, 20, 20]);
    let at = admitted!(10, window = "10s", max = 5, algorithm = "token_bucket");
    assert_eq!(at, [0, 0, 0, 0, 0, 2, 4, 6, 8]);
    let at = admitted!(10, window = "10s", max = 5, algorithm = "leaky_bucket");
    assert_eq!(at, [0, 0, 0, 0, 0, 2, 4, 6, 8]);
    let at = admitted!(
        9,
        window = "10s",
        max = 5,
        algorithm = "token_bucket",
        burst = 2
    );
    assert_eq!(at, [0, 0, 2, 4, 6, 8]);
    let at = admitted!(
        9,
        window = "10s",
        max = 5,
        algorithm = "leaky_bucket",
        burst = 1
    );
    assert_eq!(at, [0, 2, 4, 6, 8]);
    let at = admitted!(
        4,
        window = "1s",
        max = 1,
        algorithm = "token_bucket",
        burst = 3,
        cost = 3
    );
    assert_eq!(at, [0, 3], "a cost up to the burst");
    let at = admitted!(13, limits = ["2/4s", "3/12s"], algorithm = "token_bucket");
    assert_eq!(at, [0, 0, 2, 4, 8, 12]);
    // The last window's counter fades while the next one fills.
    let at = admitted!(30, window = "10s", max = 5, algorithm = "sliding_counter");
    assert!(
        at.iter().filter(|second| **second < 10).count() == 5 && at.len() > 8,
        "{at:?}"
    );
}

fn number(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure::Wrong)
}

#[rate_limit(name = "everybody", window = "60s", max = 2)]
#[rate_limit(name = "of one", key = number(who)?, window = "60s", max = 2, cost = number(cost)?)]
async fn may_fail_before(who: &str, cost: &str) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_error_of_an_argument_returns_before_any_charge_and_before_the_body() {
    alone(async {
        for _ in 0..10 {
            assert!(matches!(
                may_fail_before("x", "1").await,
                Err(Failure::Wrong)
            ));
            assert!(matches!(
                may_fail_before("1", "x").await,
                Err(Failure::Wrong)
            ));
        }
        assert!(may_fail_before("1", "1").await.is_ok());
        assert!(
            may_fail_before("1", "1").await.is_ok(),
            "nothing was charged to either limit"
        );
        assert!(refusal(&may_fail_before("1", "1").await).is_some());
        assert!(
            matches!(may_fail_before("x", "1").await, Err(Failure::Wrong)),
            "the body does not run"
        );
    })
    .await;
}

//! What a call costs and whether it counts, where the store is away when that becomes known.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Algorithm, Key, Limit, RateLimitError, RateLimiter, Rule, rate_limit};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::edges::{behind_a_proxy, cut_off};
use crate::harness::{Row, nothing_is_left_on};
use crate::support::until;

/// A place where few estimates are, and a place that fills again, slowly.
static LOG: Rule = Rule::new("spent log", Limit::per_hour(100));
static BUCKET: Rule =
    Rule::new("spent bucket", Limit::per_hour(100)).with_algorithm(Algorithm::TokenBucket);

#[rate_limit(
    key = "<user>", limiter = limiter, window = "1h", max = 100, cost = 5, actual_cost = spent,
    name = "spent log"
)]
#[rate_limit(
    key = "<user>", limiter = limiter, window = "1h", max = 100, algorithm = "token_bucket",
    cost = 5, actual_cost = spent, name = "spent bucket"
)]
async fn complete(
    limiter: &RateLimiter,
    user: &str,
    tokens: u64,
    mut over: watch::Receiver<bool>,
) -> Result<u64, RateLimitError> {
    over.wait_for(|over| *over).await.unwrap();
    Ok(tokens)
}

#[allow(clippy::ref_option_ref, reason = "what the attribute hands on")]
fn spent(outcome: &Result<u64, RateLimitError>) -> u64 {
    *outcome.as_ref().unwrap_or(&0)
}

/// What the store has left of a rule, unless it is away.
async fn left(limiter: &RateLimiter, rule: &Rule) -> Option<u64> {
    let decision = limiter.peek(rule, &key()).await.ok()?;
    (!decision.is_degraded()).then(|| decision.remaining())
}

fn key() -> Key {
    Key::of("all")
}

/// Waits until the store has so much left of a rule.
async fn becomes(limiter: &RateLimiter, rule: &Rule, expected: u64) {
    let what = format!("{expected} left of {}", rule.name());
    until(&what, Duration::from_secs(5), async || {
        left(limiter, rule).await == Some(expected)
    })
    .await;
}

/// Calls that end in an outage cost what they did cost after it, be it less or more than reserved;
/// those that were dropped in it cost the estimate.
pub(crate) async fn actual_costs() -> Row {
    const LESS: u64 = 5;
    const MORE: u64 = 4;
    const DROPPED: u64 = 3;
    let (server, proxy, limiter) = behind_a_proxy().await;
    let (end, over) = watch::channel(false);
    let (mut ending, mut dropped) = (JoinSet::new(), JoinSet::new());
    for call in 0..LESS + MORE + DROPPED {
        let (limiter, over) = (limiter.clone(), over.clone());
        let calls = if call < LESS + MORE {
            &mut ending
        } else {
            &mut dropped
        };
        let tokens = if call < LESS { 2 } else { 9 };
        calls.spawn(async move { complete(&limiter, "all", tokens, over).await });
    }
    let estimated = 100 - 5 * (LESS + MORE + DROPPED);
    becomes(&limiter, &LOG, estimated).await;
    becomes(&limiter, &BUCKET, estimated).await;
    cut_off(&proxy, &[&limiter]).await;
    dropped.shutdown().await;
    end.send(true).unwrap();
    for outcome in ending.join_all().await {
        assert!(outcome.is_ok(), "it had begun before: {outcome:?}");
    }
    sleep(Duration::from_millis(300)).await;
    proxy.refuse(false);
    let expected = 100 - 2 * LESS - 9 * MORE - 5 * DROPPED;
    becomes(&limiter, &LOG, expected).await;
    becomes(&limiter, &BUCKET, expected).await;
    // Nothing is sent once more after that.
    sleep(Duration::from_millis(300)).await;
    assert_eq!(left(&limiter, &LOG).await, Some(expected));
    drop(limiter);
    nothing_is_left_on(&server);
    Row::new("calls with `actual_cost` that end, or are dropped, while the store is away")
        .calls(usize::try_from(LESS + MORE + DROPPED).unwrap())
        .seen("cost after the return what they did cost, or the estimate")
}

/// The cost is charged once, though the reply to it is lost: in a log it is sent again, and finds
/// the reservation committed; the others are not sent again.
pub(crate) async fn actual_costs_whose_reply_is_lost() -> Row {
    const CALLS: u64 = 12;
    let (server, proxy, limiter) = behind_a_proxy().await;
    for rule in [&LOG, &BUCKET] {
        for call in 0..CALLS {
            limiter.ready().await.unwrap();
            let reservation = limiter.reserve(&rule.with_cost(2), &key()).await.unwrap();
            assert!(!reservation.decision().is_degraded());
            // One that lasts so long was good, and is replaced at once.
            sleep(Duration::from_millis(120)).await;
            proxy.cut_replies(1);
            // Once less than reserved, once more.
            reservation.commit(1 + 4 * (call % 2));
            sleep(Duration::from_millis(150)).await;
            limiter.ready().await.unwrap();
        }
        becomes(&limiter, rule, 100 - CALLS * 3).await;
        sleep(Duration::from_millis(200)).await;
        assert_eq!(
            left(&limiter, rule).await,
            Some(100 - CALLS * 3),
            "{rule:?}"
        );
    }
    drop(limiter);
    nothing_is_left_on(&server);
    let calls = usize::try_from(CALLS * 2).unwrap();
    Row::new("the reply to what a call did cost (`actual_cost`) is cut in the middle")
        .calls(calls)
        .seen("each cost is charged once")
}

/// The store returns when the reservation has left the window, and perhaps the end of the call as
/// well: all of the cost is charged then.
pub(crate) async fn actual_costs_that_are_late() -> Row {
    const WINDOW: Duration = Duration::from_secs(3);
    let (server, proxy, limiter) = behind_a_proxy().await;
    let late = Rule::new("late", Limit::new(100, WINDOW)).with_cost(10);
    let later = Rule::new("later", Limit::new(100, WINDOW * 2 / 3)).with_cost(10);
    let (reserved, start) = (
        limiter.reserve(&late, &key()).await.unwrap(),
        Instant::now(),
    );
    let ended = limiter.reserve(&later, &key()).await.unwrap();
    cut_off(&proxy, &[&limiter]).await;
    ended.commit(30);
    sleep(WINDOW / 2).await;
    reserved.commit(30);
    sleep((WINDOW + Duration::from_millis(300)).saturating_sub(start.elapsed())).await;
    proxy.refuse(false);
    limiter.ready().await.unwrap();
    becomes(&limiter, &later, 70).await;
    becomes(&limiter, &late, 70).await;
    drop(limiter);
    nothing_is_left_on(&server);
    Row::new("a call with `actual_cost` that ends in an outage that outlasts its window")
        .calls(2)
        .seen("all of the cost is charged after the return")
}

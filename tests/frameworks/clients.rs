//! Clients on tower that stay below the limit of a remote API.

use std::time::Duration;

use ratelimit_runtime::{Key, Limit, RateLimitClientLayer, RateLimitError, RateLimiter, Rule};
use tokio::time::Instant;
use tower::{BoxError, Service as _, ServiceBuilder, ServiceExt as _, service_fn};

static PATIENT: Rule = Rule::new("theirs", Limit::new(2, Duration::from_secs(10))).with_wait(Duration::from_secs(60));
static THEIRS: Rule = Rule::new("theirs", Limit::new(2, Duration::from_secs(10)));

#[tokio::test(start_paused = true)]
async fn calls_above_the_limit_are_errors_and_are_not_made() {
    let mut client = ServiceBuilder::new()
        .layer(RateLimitClientLayer::new(RateLimiter::memory(), &THEIRS, |account: &&str| Key::of(*account)))
        .service(service_fn(async |account: &'static str| Ok::<_, BoxError>(account)));
    for _ in 0..2 {
        assert_eq!(client.ready().await.unwrap().call("a").await.unwrap(), "a");
    }
    let error = client.ready().await.unwrap().call("a").await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(RateLimitError::Exceeded(_))), "{error}");
    assert_eq!(client.ready().await.unwrap().call("b").await.unwrap(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_waits_spreads_the_calls() {
    let start = Instant::now();
    let client = ServiceBuilder::new()
        .layer(RateLimitClientLayer::new(RateLimiter::memory(), &PATIENT, |_: &&str| Key::of("ours")))
        .service(service_fn(move |_: &str| async move { Ok::<_, BoxError>(start.elapsed().as_secs()) }));
    let calls = (0..6).map(|_| client.clone().oneshot("call"));
    let mut made: Vec<_> = futures_util::future::join_all(calls).await.into_iter().map(Result::unwrap).collect();
    made.sort_unstable();
    assert_eq!(made, [0, 0, 10, 10, 20, 20]);
}

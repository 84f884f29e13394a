use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, RateLimitError, RateLimiter, Rule, Source};

const MAX: u64 = 1_000;

static SEARCH: Rule =
    Rule::new("search", Limit::per_minute(MAX)).with_prefetch(Duration::from_millis(200));

/// Calls for three seconds; gives how many calls were admitted, and how many of them from memory.
async fn search(limiter: &RateLimiter, tenant: &Key) -> Result<(u64, u64), RateLimitError> {
    let (begun, mut admitted, mut from_memory) = (Instant::now(), 0, 0);
    while begun.elapsed() < Duration::from_secs(3) {
        match limiter.acquire(&SEARCH, tenant).await {
            Ok(decision) => {
                admitted += 1;
                from_memory += u64::from(decision.source() == Source::Grant);
            }
            Err(RateLimitError::Exceeded(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => return Err(error),
        }
    }
    Ok((admitted, from_memory))
}

async fn search_by_two(url: &str) -> Result<(), RateLimitError> {
    let limiter = || {
        RateLimiter::builder()
            .redis(url)
            .timeout(Duration::from_secs(5))
            .build()
    };
    let (first, second, tenant) = (limiter()?, limiter()?, Key::of("acme"));
    first.ready().await?;
    first.reset(&SEARCH, &tenant).await?;

    let (one, other) = tokio::join!(search(&first, &tenant), search(&second, &tenant));
    let ((one, one_from_memory), (other, other_from_memory)) = (one?, other?);
    assert_eq!(one + other, MAX);
    assert!(one_from_memory + other_from_memory > 0);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), RateLimitError> {
    search_by_two("redis://127.0.0.1/").await
}

//! What the fields hold at their edges.

use std::time::Duration;

use ratelimit_runtime::store::StoreError;
use ratelimit_runtime::{Key, Limit, MAX_COUNT, RateLimitError, RateLimiter, Rule, rate_limit};

use crate::{Item, item, parsed};

async fn refusal(rule: &Rule) -> RateLimitError {
    let limiter = RateLimiter::memory();
    for _ in 0..3 {
        if let Err(error) = limiter.acquire(rule, &Key::of("alice")).await {
            return error;
        }
    }
    panic!("never refused");
}

fn field(error: &RateLimitError, name: &str) -> Vec<Item> {
    let response = error.to_http_response();
    parsed(response.headers().get_all(name).iter().map(|value| value.to_str().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn names_and_numbers_are_what_a_structured_field_can_hold() {
    let error = refusal(&Rule::named("müde \"ä\\b\"", Limit::new(2, Duration::from_millis(1500)))).await;
    assert_eq!(field(&error, "ratelimit-policy"), [item("m_de \"_\\b\"", &[("q", 2), ("w", 2)])]);
    assert_eq!(field(&error, "ratelimit"), [item("m_de \"_\\b\"", &[("r", 0), ("t", 2)])]);

    let huge = Rule::named("huge", Limit::per_minute(MAX_COUNT)).with_cost(MAX_COUNT);
    assert_eq!(
        field(&refusal(&huge).await, "ratelimit-policy"),
        [item("huge", &[("q", 999_999_999_999_999), ("w", 60)])]
    );
}

#[rate_limit(window = "60s", max = 1)]
async fn derived() -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn clients_are_not_told_where_in_the_source_a_limit_is() {
    let error = RateLimiter::memory()
        .scope(async {
            derived().await.unwrap();
            derived().await.unwrap_err()
        })
        .await;
    assert!(error.decision().unwrap().rule().contains("fields"), "a path");
    assert_eq!(field(&error, "ratelimit-policy"), [item("derived", &[("q", 1), ("w", 60)])]);
}

#[tokio::test(start_paused = true)]
async fn a_moment_is_rounded_up_and_the_same_in_both_fields() {
    let error = refusal(&Rule::named("short", Limit::new(1, Duration::from_micros(1_000_001)))).await;
    assert_eq!(error.to_http_response().headers()["retry-after"], "2");
    assert_eq!(field(&error, "ratelimit"), [item("short", &[("r", 0), ("t", 2)])]);
}

#[tokio::test(start_paused = true)]
async fn where_waiting_does_not_help_nothing_says_when_to_come_back() {
    let errors = [
        (429, refusal(&Rule::named("heavy", Limit::per_minute(1)).with_cost(2)).await),
        (503, RateLimitError::Unavailable(StoreError::unavailable("away"))),
        (500, RateLimitError::Misconfigured(StoreError::misconfigured("wrong"))),
    ];
    for (status, error) in errors {
        let response = error.to_http_response();
        assert_eq!(response.status(), status);
        for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
            assert!(!response.headers().contains_key(name), "{status}: {name}");
        }
    }
}

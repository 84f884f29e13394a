//! An annotation whose key is an expression (`#email`, `#user.id + ':' + #user.email`), over a
//! sorted set, with a JSON body on 429 and fail-open.

use std::sync::Arc;

use axum::Json;
use axum::body::to_bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use tokio::task::JoinSet;

use super::*;

struct User {
    id: u64,
    email: String,
}

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn send_code(email: &str) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<user.id>:<user.email>", window = "60s", max = 1)]
async fn invite(user: &User) -> Outcome {
    Ok(())
}

fn user(id: u64, email: &str) -> User {
    User { id, email: email.to_owned() }
}

#[tokio::test]
async fn keys_are_arguments_and_their_fields() {
    for (limiter, _) in both() {
        limiter
            .scope(async {
                assert!(!is_refused(&send_code("alice@example.com").await));
                assert!(is_refused(&send_code("alice@example.com").await));
                assert!(!is_refused(&send_code("bob@example.com").await));
                assert!(!is_refused(&invite(&user(1, "a")).await));
                assert!(is_refused(&invite(&user(1, "a")).await));
                assert!(!is_refused(&invite(&user(2, "a")).await));
                assert!(!is_refused(&invite(&user(1, "b")).await));
            })
            .await;
    }
}

#[rate_limit(key = "<email>", window = "60s", max = 1, on_refused = in_the_house_style)]
async fn handler(email: &str) -> Response {
    "sent".into_response()
}

fn in_the_house_style(_: RateLimitError) -> Response {
    let body = Json(serde_json::json!({ "code": 429, "message": "too many requests", "data": null }));
    (StatusCode::TOO_MANY_REQUESTS, body).into_response()
}

#[tokio::test]
async fn a_refusal_is_429_with_a_body_of_ones_own() {
    RateLimiter::memory()
        .scope(async {
            assert_eq!(handler("a").await.status(), StatusCode::OK);
            let refused = handler("a").await;
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            let body = to_bytes(refused.into_body(), 1 << 16).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body, serde_json::json!({ "code": 429, "message": "too many requests", "data": null }));
        })
        .await;
}

/// As there, calls go on while Redis is away; here that is a choice, and the decision says so.
#[tokio::test]
async fn without_redis_calls_go_on_unless_one_says_otherwise() {
    let mut server = RedisServer::start();
    let url = server.url();
    server.stop();
    let rule = Rule::new("open", Limit::per_minute(1));
    let open = RateLimiter::builder().redis(&url).on_unavailable(OnUnavailable::Allow).build().unwrap();
    for _ in 0..3 {
        assert!(open.acquire(&rule, &Key::global()).await.unwrap().is_degraded());
    }
    let closed = RateLimiter::builder().redis(&url).on_unavailable(OnUnavailable::Deny).build().unwrap();
    let error = closed.acquire(&rule, &Key::global()).await.unwrap_err();
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");
}

/// Members named by the millisecond overwrite each other: of 50,000 calls 473 were kept.
#[tokio::test]
async fn calls_of_one_microsecond_all_count() {
    for (limiter, clock) in both() {
        for (name, max) in [("short", 100), ("long", 2_000)] {
            let rule = Rule::new(name, Limit::per_minute(max));
            for _ in 0..max {
                assert!(admits(&limiter, &rule, &Key::global()).await);
            }
            assert!(!admits(&limiter, &rule, &Key::global()).await);
            clock.advance(MINUTE - MICROSECOND);
            assert!(!admits(&limiter, &rule, &Key::global()).await);
            // Each has a microsecond of its own, and leaves the window by itself.
            for left in [1, 2, 3] {
                clock.advance(MICROSECOND);
                assert_eq!(limiter.peek(&rule, &Key::global()).await.unwrap().remaining(), left);
            }
            clock.advance(MICROSECOND * u32::try_from(max - 3).unwrap());
            assert_eq!(limiter.peek(&rule, &Key::global()).await.unwrap().remaining(), max);
        }
    }
}

/// Looking first and charging then lets parallel callers pass together.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_calls_do_not_pass_between_check_and_act() {
    let (redis, _) = on_redis(shared());
    for limiter in [strict().build().unwrap(), redis] {
        for &algorithm in ALGORITHMS {
            // A day, so that no bucket is refilled meanwhile.
            let rule =
                Arc::new(Rule::named(format!("race {algorithm:?}"), Limit::per_day(50)).with_algorithm(algorithm));
            let mut calls = JoinSet::new();
            for _ in 0..1_000 {
                let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
                calls.spawn(async move { admits(&limiter, &rule, &Key::global()).await });
            }
            let admitted = calls.join_all().await.into_iter().filter(|admitted| *admitted).count();
            assert_eq!(admitted, 50, "{algorithm:?}");
        }
    }
}

/// Where the caller's clock decides, one that runs ahead empties the window. Here the server's
/// does: the process may believe what it likes.
#[tokio::test]
async fn the_clock_of_the_caller_does_not_decide() {
    let (limiter, _) = on_redis(shared());
    for &algorithm in ALGORITHMS {
        let rule = Rule::named(format!("skew {algorithm:?}"), Limit::per_hour(1)).with_algorithm(algorithm);
        assert!(admits(&limiter, &rule, &Key::global()).await);
        tokio::time::pause();
        tokio::time::advance(MINUTE * 600).await;
        tokio::time::resume();
        assert!(!admits(&limiter, &rule, &Key::global()).await, "{algorithm:?}");
    }
}

/// An expression that names nothing fails when the function is called; here the compiler refuses
/// it.
#[test]
fn an_expression_that_names_nothing_does_not_compile() {
    let said = include_str!("../../compiler/ui/fail/template/unknown.stderr");
    assert!(said.starts_with("error: no argument is called"), "{said}");
}

mod billing {
    use super::*;

    #[rate_limit(key = "<email>", window = "60s", max = 1)]
    pub(super) async fn send_code(email: &str) -> Outcome {
        Ok(())
    }
}

/// A key that is made of the expression alone is one budget for all methods that use the same
/// expression.
#[tokio::test]
async fn functions_with_one_expression_do_not_share_a_budget() {
    for (limiter, _) in both() {
        limiter
            .scope(async {
                assert!(!is_refused(&send_code("a").await));
                assert!(!is_refused(&billing::send_code("a").await));
                assert!(is_refused(&send_code("a").await));
                assert!(is_refused(&billing::send_code("a").await));
            })
            .await;
    }
}

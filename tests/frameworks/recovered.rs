//! A response names the waits and limits that hold for it, and no others.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ratelimit_runtime::{
    Key, Limit, RateLimitError, RateLimitLayer, RateLimiter, Responses, Rule, key, rate_limit,
};
use tower::ServiceExt as _;

use crate::axum_server::{ask, request, seen};
use crate::{search, standing};

#[rate_limit(window = "60s", max = 1, name = "observed", shadow)]
async fn observed() -> Result<(), RateLimitError> {
    Ok(())
}

fn app<H, T>(handler: H) -> Router
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    Router::new()
        .route("/", get(handler))
        .layer(RateLimitLayer::new().limiter(RateLimiter::memory()))
}

#[tokio::test(start_paused = true)]
async fn a_shadow_rule_lends_its_wait_to_no_answer() {
    for status in [
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::TOO_MANY_REQUESTS,
    ] {
        let app = app(async move || {
            observed().await.unwrap();
            status
        });
        for _ in 0..3 {
            let answer = ask(&app, request("/")).await;
            assert_eq!((answer.status, answer.retry_after), (status.as_u16(), None));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_recovers_from_a_refusal_answers_for_itself() {
    let down = app(async || {
        let _ = search("alice").await;
        StatusCode::SERVICE_UNAVAILABLE
    });
    let another = app(async || {
        if search("alice").await.is_err() {
            let _ = search("the waiting room").await;
        }
        StatusCode::TOO_MANY_REQUESTS
    });
    // The check that ends the call is one that no waiting helps.
    let too_heavy = app(async || {
        let _ = search("alice").await;
        let limiter = RateLimiter::current();
        let heavy = limiter.acquire(&TOO_HEAVY.with_cost(6), &key!("all")).await;
        assert!(heavy.is_err());
        StatusCode::TOO_MANY_REQUESTS
    });
    for app in [down, another, too_heavy] {
        for _ in 0..4 {
            assert_eq!(ask(&app, request("/")).await.retry_after, None);
        }
    }
}

/// As in an import whose rows are charged one by one.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_more_admissions_than_are_kept_lends_its_wait() {
    let app = app(async || {
        let rows = Rule::new("rows", Limit::per_minute(10_001));
        while RateLimiter::current()
            .acquire(&rows, &key!("all"))
            .await
            .is_ok()
        {}
        StatusCode::TOO_MANY_REQUESTS
    });
    let answer = ask(&app, request("/")).await;
    assert_eq!(answer.retry_after.as_deref(), Some("60"));
    assert_eq!(answer.standings, [standing("rows", 0, 60)]);
}

fn legacy(response: &Response) -> [Vec<&str>; 3] {
    ["limit", "remaining", "reset"].map(|name| {
        let values = response.headers().get_all(format!("x-ratelimit-{name}"));
        values.iter().map(|value| value.to_str().unwrap()).collect()
    })
}

static TOO_HEAVY: Rule = Rule::new("heavy", Limit::new(5, Duration::from_secs(10)));

fn older() -> RateLimiter {
    let responses = Responses::new().legacy_headers(true);
    RateLimiter::builder().responses(responses).build().unwrap()
}

/// The refusing rule need not have less left: the call may have cost more.
#[tokio::test(start_paused = true)]
async fn the_layer_that_refuses_is_the_stricter_one() {
    let limiter = older();
    let nearly = Rule::named("nearly", Limit::new(3, Duration::from_secs(7)));
    let app = Router::new()
        .route("/", get(async || "hello"))
        .layer(RateLimitLayer::new().rule(&TOO_HEAVY.with_cost(3), |_: &Request| key!("all")))
        .layer(RateLimitLayer::new().rule(&nearly, |_: &Request| key!("all")))
        .layer(RateLimitLayer::new().limiter(limiter));
    let _ = app.clone().oneshot(request("/")).await.unwrap();
    let refused = app.oneshot(request("/")).await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), legacy(&refused)),
        (429, [vec!["5"], vec!["2"], vec!["10"]])
    );
}

/// A refusal that the handler has gone on after may have less left.
#[tokio::test(start_paused = true)]
async fn the_refusal_that_is_answered_is_the_one_of_the_fields() {
    let handler = async |request: Request| {
        let acquire = async |cost, key: &str| {
            let rule = TOO_HEAVY.with_cost(cost);
            RateLimiter::current()
                .acquire(&rule, &Key::of(key))
                .await
                .map(drop)
        };
        for _ in 0..3 {
            let _ = search("alice").await;
            let _ = acquire(5, "another").await;
        }
        let answer = acquire(3, "all").await;
        match request.uri().path() {
            "/" => answer.map_err(IntoResponse::into_response),
            _ => answer.map_err(|_| StatusCode::TOO_MANY_REQUESTS.into_response()),
        }
    };
    let app = Router::new()
        .fallback(handler)
        .layer(RateLimitLayer::new().limiter(older()));
    let _ = app.clone().oneshot(request("/")).await.unwrap();
    for path in ["/", "/status-alone"] {
        let refused = app.clone().oneshot(request(path)).await.unwrap();
        assert_eq!(legacy(&refused), [vec!["5"], vec!["2"], vec!["10"]]);
        let standings = seen(refused).await.standings;
        assert_eq!(
            standings,
            [standing("search", 0, 60), standing("heavy", 2, 10)]
        );
    }
}

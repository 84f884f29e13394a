//! axum, and with it tower.

use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::connect_info::MockConnectInfo;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use ratelimit_runtime::{
    RateLimitError, RateLimitLayer, RateLimiter, Responses, by_client_ip, rate_limit,
};
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt as _};
use tower_http::request_id::{
    MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer,
};

use crate::{PER_IP, Seen, policy, search, standing};

pub(crate) async fn seen(response: Response) -> Seen {
    let (parts, body) = response.into_parts();
    let field = |name: &str| {
        parts
            .headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let body = to_bytes(body, 65_536).await.unwrap();
    Seen::new(
        parts.status.as_u16(),
        field,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

pub(crate) fn request(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

pub(crate) async fn ask(app: &Router, request: Request) -> Seen {
    seen(app.clone().oneshot(request).await.unwrap()).await
}

fn searches() -> Router {
    Router::new().route(
        "/{user}",
        get(async |Path(user): Path<String>| search(&user).await),
    )
}

#[rate_limit(key = "<user>", limits = ["2/10s", "100/1d"], name = "export")]
async fn export(user: &str) -> Result<&'static str, RateLimitError> {
    Ok("exported")
}

#[rate_limit(window = "1s", max = 1, name = "quiet", shadow)]
async fn quiet() -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_rule_of_a_request_is_in_the_fields_and_shadows_are_not() {
    let handler = async || -> Result<&'static str, RateLimitError> {
        search("alice").await?;
        search("bob").await?;
        quiet().await?;
        export("alice").await
    };
    let app = Router::new()
        .route("/", get(handler))
        .layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    let answer = ask(&app, request("/")).await;
    assert_eq!(
        answer.policies,
        [
            policy("search", 2, 60),
            policy("export", 2, 10),
            policy("export/2", 100, 86_400),
        ]
    );
    assert_eq!(
        answer.standings,
        [standing("search", 1, 60), standing("export", 1, 10)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_answers_with_a_status_gets_the_fields_too() {
    let handler = async || -> Result<String, StatusCode> { Ok(search("alice").await?) };
    let app = Router::new()
        .route("/", get(handler))
        .layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    for _ in 0..2 {
        assert_eq!(ask(&app, request("/")).await.status, 200);
    }
    let refused = ask(&app, request("/")).await;
    assert_eq!(
        (
            refused.status,
            refused.retry_after.as_deref(),
            refused.body.as_str()
        ),
        (429, Some("60"), "")
    );
    assert_eq!(refused.standings, [standing("search", 0, 60)]);
}

async fn refused(responses: Responses) -> Response {
    let limiter = RateLimiter::builder().responses(responses).build().unwrap();
    let app = searches().layer(RateLimitLayer::new().limiter(limiter));
    for _ in 0..2 {
        let _ = ask(&app, request("/alice")).await;
    }
    app.oneshot(request("/alice")).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn refusals_look_as_the_limiter_says() {
    let problem = refused(Responses::new().problem_json()).await;
    assert_eq!(
        problem.headers()["content-type"],
        "application/problem+json"
    );
    let body: Value = serde_json::from_str(&seen(problem).await.body).unwrap();
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Too Many Requests",
        "status": 429,
        "detail": "too many requests, try again in 60s",
        "violated-policies": ["search"],
    });
    assert_eq!(body, expected);

    let plain = refused(Responses::new()).await;
    assert!(!plain.headers().contains_key("x-ratelimit-limit"));
    let legacy = refused(Responses::new().legacy_headers(true)).await;
    for (name, value) in [("limit", "2"), ("remaining", "0"), ("reset", "60")] {
        let values: Vec<_> = legacy
            .headers()
            .get_all(format!("x-ratelimit-{name}"))
            .iter()
            .collect();
        assert_eq!(values, [value], "{name}");
    }
}

/// Of layers around the limits, such as one that gives requests an id.
#[tokio::test(start_paused = true)]
async fn a_body_of_a_refusal_may_depend_on_extensions() {
    let responses = Responses::new().body(|refusal| {
        let id = refusal
            .request()
            .and_then(|request| request.extensions.get::<RequestId>());
        let id = id.map(|id| id.header_value().to_str().unwrap().to_owned());
        ("text/plain", id.unwrap_or_default())
    });
    let limiter = RateLimiter::builder().responses(responses).build().unwrap();
    let app = searches().layer(
        ServiceBuilder::new()
            .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
            .layer(PropagateRequestIdLayer::x_request_id())
            .layer(RateLimitLayer::new().limiter(limiter)),
    );
    for _ in 0..2 {
        assert_eq!(ask(&app, request("/alice")).await.status, 200);
    }
    let refused = app.oneshot(request("/alice")).await.unwrap();
    let id = refused.headers()["x-request-id"].clone();
    assert_eq!(seen(refused).await.body, id.to_str().unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_address_of_a_test_is_that_of_its_client() {
    let layer = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .rule(&PER_IP, by_client_ip);
    let app = searches()
        .layer(layer)
        .layer(MockConnectInfo(SocketAddr::from(([7, 7, 7, 7], 7))));
    for status in [200, 429] {
        assert_eq!(ask(&app, request("/alice")).await.status, status);
    }
}

//! What is answered in place of a handler, in every framework.

use actix_web::dev::ServiceRequest;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, web};
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use poem::{EndpointExt as _, Route};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    ClientIp, HeaderKey, Key, KeyRejection, Limit, MemoryStore, OnUnavailable, RateLimitLayer, RateLimiter, Responses,
    Rule, key,
};
use serde_json::{Value, json};

use crate::{ApiKey, PER_KEY, Seen, actix, axum_server, poem_server};

/// The key of a request, where it has one: nothing says where these come from.
#[allow(clippy::unnecessary_wraps, reason = "a key function like those beside it in the table")]
fn of_all(_: Result<ClientIp, KeyRejection>) -> Result<Key, KeyRejection> {
    Ok(key!("all"))
}

fn of_address(ip: Result<ClientIp, KeyRejection>) -> Result<Key, KeyRejection> {
    ip.map(|ip| key!("<ip>"))
}

type KeyOf = fn(Result<ClientIp, KeyRejection>) -> Result<Key, KeyRejection>;

/// What axum, actix-web and poem answer to the second of two requests.
async fn second_answers(limiter: &RateLimiter, rule: &Rule, key: KeyOf) -> [(&'static str, Seen); 3] {
    let layer = || RateLimitLayer::new().limiter(limiter.clone());
    let on_axum = Router::new()
        .route("/", get(async || "hello"))
        .layer(layer().rule(rule, move |request: &axum::extract::Request| key(ClientIp::try_from(request))));
    let on_poem = Route::new()
        .at("/", poem::get(poem::endpoint::make_sync(|_| "hello")))
        .with(layer().rule(rule, move |request: &poem::Request| key(ClientIp::try_from(request))));
    let on_actix = App::new()
        .route("/", web::get().to(async || "hello"))
        .wrap(layer().rule(rule, move |request: &ServiceRequest| key(ClientIp::try_from(request))));
    let on_actix = init_service(on_actix).await;
    let request = || TestRequest::get().uri("/").to_request();
    let _ = axum_server::ask(&on_axum, axum_server::request("/")).await;
    [
        ("axum", axum_server::ask(&on_axum, axum_server::request("/")).await),
        ("poem", poem_server::ask(&on_poem, poem_server::request("/")).await),
        ("actix-web", actix::seen(call_service(&on_actix, request()).await).await),
    ]
}

/// What axum, actix-web and poem answer to a request with these values of the header that is its
/// key.
async fn answers_to(limiter: &RateLimiter, values: &[&'static str]) -> [(&'static str, Seen); 3] {
    let layer = || RateLimitLayer::new().limiter(limiter.clone());
    let on_axum = Router::new().route("/", get(async || "hello")).layer(
        layer().rule(&PER_KEY, |request: &axum::extract::Request| {
            HeaderKey::<ApiKey>::of(request.headers()).map(|value| key!("<value>"))
        }),
    );
    let on_poem = Route::new().at("/", poem::get(poem::endpoint::make_sync(|_| "hello"))).with(
        layer().rule(&PER_KEY, |request: &poem::Request| {
            HeaderKey::<ApiKey>::of(request.headers()).map(|value| key!("<value>"))
        }),
    );
    let on_actix = App::new().route("/", web::get().to(async || "hello")).wrap(
        layer().rule(&PER_KEY, |request: &ServiceRequest| {
            HeaderKey::<ApiKey>::try_from(request).map(|value| key!("<value>"))
        }),
    );
    let on_actix = init_service(on_actix).await;
    let (mut axums, mut poems) = (axum_server::request("/"), poem_server::request("/"));
    let mut actixs = TestRequest::get().uri("/");
    for value in values {
        axums.headers_mut().append("x-api-key", value.parse().unwrap());
        poems.headers_mut().append("x-api-key", value.parse().unwrap());
        actixs = actixs.append_header(("x-api-key", *value));
    }
    [
        ("axum", axum_server::ask(&on_axum, axums).await),
        ("poem", poem_server::ask(&on_poem, poems).await),
        ("actix-web", actix::seen(call_service(&on_actix, actixs.to_request()).await).await),
    ]
}

fn denying(responses: Responses) -> RateLimiter {
    let store = FaultyStore::new(MemoryStore::new());
    store.fail();
    RateLimiter::builder().store(store).on_unavailable(OnUnavailable::Deny).responses(responses).build().unwrap()
}

fn limiter(responses: Responses) -> RateLimiter {
    RateLimiter::builder().responses(responses).build().unwrap()
}

/// Each error, with the status that it has by default.
fn errors(responses: &Responses) -> [(u16, RateLimiter, Rule, KeyOf); 4] {
    let one = Rule::named("one", Limit::per_minute(1));
    [
        (429, limiter(responses.clone()), one.clone(), of_all),
        (413, limiter(responses.clone()), one.with_cost(2), of_all),
        (503, denying(responses.clone()), one.clone(), of_all),
        (500, limiter(responses.clone()), one, of_address),
    ]
}

#[tokio::test(start_paused = true)]
async fn no_answer_in_place_of_a_handler_is_to_be_stored() {
    for (status, limiter, rule, key) in errors(&Responses::new()) {
        for (framework, answer) in second_answers(&limiter, &rule, key).await {
            assert_eq!((answer.status, answer.no_store), (status, true), "{framework}");
            assert_eq!(answer.retry_after.is_some(), status == 429, "{framework}: {status} is no call to come again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_answers_in_place_of_a_handler_have_the_body_that_the_limiter_says() {
    let plain = Responses::new().body(|refusal| ("text/plain", format!("{}: {refusal}", refusal.status())));
    let says = |status| match status {
        429 => "429: too many requests, try again in 60s",
        413 => "413: a request of cost 2 is above the limit of 1",
        503 => "503: the rate limiter is unavailable",
        _ => "500: internal error",
    };
    for (status, limiter, rule, key) in errors(&plain) {
        for (framework, answer) in second_answers(&limiter, &rule, key).await {
            assert_eq!(answer.body, says(status), "{framework}");
        }
    }
    for (framework, answer) in answers_to(&limiter(plain), &[]).await {
        assert_eq!(answer.body, "400: the header x-api-key is missing", "{framework}");
    }
    let problem = json!({
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "the header x-api-key appears more than once",
    });
    for (framework, answer) in answers_to(&limiter(Responses::new().problem_json()), &["a", "b"]).await {
        assert_eq!(serde_json::from_str::<Value>(&answer.body).unwrap(), problem, "{framework}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_key_is_401_where_it_is_a_credential() {
    let limiter = limiter(Responses::new().unauthorized("ApiKey realm=\"orders\""));
    for (values, status) in [(&[][..], 401), (&["a"], 200), (&["a", "b"], 400)] {
        for (framework, answer) in answers_to(&limiter, values).await {
            assert_eq!(answer.status, status, "{framework}, {values:?}");
            assert_eq!(answer.no_store, status != 200, "{framework}, {values:?}");
        }
    }
    let missing = HeaderKey::<ApiKey>::of(&HeaderMap::new()).unwrap_err();
    let response = limiter.scope(async { missing.to_http_response() }).await;
    assert_eq!(response.headers()["www-authenticate"], "ApiKey realm=\"orders\"");
    let status = limiter.scope(async { tonic::Status::from(missing) }).await;
    assert_eq!(status.code(), tonic::Code::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn a_cost_above_the_limit_has_the_status_that_the_limiter_says() {
    let limiter = limiter(Responses::new().cost_exceeds_limit(422));
    let heavy = Rule::named("heavy", Limit::per_minute(1)).with_cost(2);
    for (framework, answer) in second_answers(&limiter, &heavy, of_all).await {
        assert_eq!((answer.status, answer.retry_after), (422, None), "{framework}");
    }
    let error = limiter.acquire(&heavy, &key!("all")).await.unwrap_err();
    let status = limiter.scope(async { StatusCode::from(error.clone()) }).await;
    assert_eq!(status, 422);
    let (status, _) = RateLimiter::memory().scope(async { <(StatusCode, String)>::from(error.clone()) }).await;
    assert_eq!(status, 413);
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::InvalidArgument, "who is exhausted comes back");
}

#[test]
fn a_setting_that_no_refusal_can_have_is_an_error_that_names_it() {
    let built =
        |responses| RateLimiter::builder().responses(responses).build().map(drop).map_err(|error| error.to_string());
    for status in [0, 200, 302, 399, 600, 999, u16::MAX] {
        let error = built(Responses::new().cost_exceeds_limit(status)).unwrap_err();
        assert!(error.contains("cost_exceeds_limit") && error.contains("413"), "{error}");
    }
    for challenge in ["", " ", "a\nb"] {
        let error = built(Responses::new().unauthorized(challenge)).unwrap_err();
        assert!(error.contains("unauthorized") && error.contains("Bearer"), "{error}");
    }
    assert_eq!(built(Responses::new().unauthorized("Bearer").cost_exceeds_limit(403)), Ok(()));
}

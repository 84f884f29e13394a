//! A refusal that no waiting ends names no time, in any framework: a client that was told one would
//! come back for nothing.

use actix_web::dev::ServiceRequest;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, web};
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::get;
use poem::{EndpointExt as _, Route};
use ratelimit_runtime::store::{Answer, Request as StoreRequest, Verdict};
use ratelimit_runtime::{Key, RateLimitLayer, RateLimiter, Responses, Store, key};

use crate::axum_server::{ask, request};
use crate::{PER_IP, Seen, actix, poem_server, search};

/// A store whose places are all taken.
struct Taken;

impl Store for Taken {
    fn acquire<'a>(&'a self, _: StoreRequest<'a>) -> Answer<'a, Verdict> {
        Answer::ready(Ok(Verdict::refused()))
    }

    fn peek<'a>(&'a self, _: StoreRequest<'a>) -> Answer<'a, Verdict> {
        Answer::ready(Ok(Verdict::refused()))
    }

    fn reset<'a>(&'a self, _: StoreRequest<'a>) -> Answer<'a, bool> {
        Answer::ready(Ok(false))
    }
}

fn limiter() -> RateLimiter {
    RateLimiter::builder().store(Taken).responses(Responses::new().legacy_headers(true)).build().unwrap()
}

fn assert_no_time(answer: &Seen, body: &str, context: &str) {
    assert_eq!((answer.status, answer.retry_after.as_deref()), (429, None), "{context}");
    assert_eq!(answer.standings.last().unwrap().1, [("r".to_owned(), 0)], "{context}");
    assert_eq!(answer.body, body, "{context}");
    assert!(answer.no_store, "{context}");
}

const BODY: &str = r#"{"code":429,"message":"too many requests","data":null}"#;

#[tokio::test]
async fn a_refusal_that_no_waiting_ends_names_no_time() {
    let layer = RateLimitLayer::new().limiter(limiter());
    let handler = async || search("alice").await;
    let by_handler = Router::new().route("/", get(handler)).layer(layer.clone());
    assert_no_time(&ask(&by_handler, request("/")).await, BODY, "a handler of axum");
    let by_layer = Router::new().route("/", get(async || "hello"));
    let by_layer = by_layer.layer(layer.clone().rule(&PER_IP, |_: &Request| key!("axum")));
    assert_no_time(&ask(&by_layer, request("/")).await, BODY, "a layer around axum");
    let status =
        Router::new().route("/", get(async || search("alice").await.map_err(|_| StatusCode::TOO_MANY_REQUESTS)));
    assert_no_time(&ask(&status.layer(layer.clone()), request("/")).await, "", "a status alone");

    let on_poem = Route::new().at("/", poem::endpoint::make(async |_| search("alice").await)).with(layer.clone());
    assert_no_time(&poem_server::ask(&on_poem, poem_server::request("/")).await, BODY, "poem");
    let around_poem = Route::new()
        .at("/", poem::endpoint::make_sync(|_| "hello"))
        .with(layer.clone().rule(&PER_IP, |_: &poem::Request| key!("poem")));
    assert_no_time(&poem_server::ask(&around_poem, poem_server::request("/")).await, BODY, "a layer around poem");

    let app = App::new().route("/", web::get().to(async || search("alice").await)).wrap(layer.clone());
    let app = init_service(app).await;
    let answer = actix::seen(call_service(&app, TestRequest::get().to_request()).await).await;
    assert_no_time(&answer, BODY, "actix-web");
    let app = App::new()
        .route("/", web::get().to(async || "hello"))
        .wrap(layer.rule(&PER_IP, |_: &ServiceRequest| key!("actix-web")));
    let app = init_service(app).await;
    let answer = actix::seen(call_service(&app, TestRequest::get().to_request()).await).await;
    assert_no_time(&answer, BODY, "a middleware of actix-web");
}

#[tokio::test]
async fn a_status_of_a_refusal_that_no_waiting_ends_names_no_time() {
    let limiter = limiter();
    let error = limiter.acquire(&PER_IP, &Key::global()).await.unwrap_err();
    let response = limiter.scope(async { error.to_http_response() }).await;
    for name in ["retry-after", "x-ratelimit-reset"] {
        assert!(!response.headers().contains_key(name), "{name}");
    }
    let status = tonic::Status::from(error);
    assert_eq!((status.code(), status.message()), (tonic::Code::ResourceExhausted, "too many requests"));
    assert!(status.metadata().get("retry-after").is_none());
}

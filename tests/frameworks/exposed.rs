//! What scripts of other origins may read.

use actix_web::dev::ServiceRequest;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, HttpResponse, web};
use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use poem::{EndpointExt as _, Route};
use ratelimit_runtime::{RateLimitLayer, RateLimiter, Responses, key};

use crate::{PER_IP, PER_KEY, Seen, actix, axum_server, poem_server};

const NAME: &str = "access-control-expose-headers";

fn layer(limiter: &RateLimiter) -> RateLimitLayer {
    RateLimitLayer::new().limiter(limiter.clone()).expose_headers(true)
}

/// Two answers of a handler that exposes a field of its own, behind two layers.
async fn answers(limiter: &RateLimiter) -> [(&'static str, [Seen; 2]); 3] {
    let on_axum = Router::new()
        .route("/", get(async || [(NAME, "x-own, RateLimit")]))
        .layer(layer(limiter).rule(&PER_IP, |_: &Request| key!("axum")))
        .layer(layer(limiter).rule(&PER_KEY, |_: &Request| key!("axum")));
    let on_axum = async || axum_server::ask(&on_axum, axum_server::request("/")).await;
    let on_poem = Route::new()
        .at("/", poem::endpoint::make_sync(|_| poem::Response::builder().header(NAME, "x-own, RateLimit").finish()))
        .with(layer(limiter).rule(&PER_IP, |_: &poem::Request| key!("poem")))
        .with(layer(limiter).rule(&PER_KEY, |_: &poem::Request| key!("poem")));
    let on_poem = async || poem_server::ask(&on_poem, poem_server::request("/")).await;
    let on_actix = App::new()
        .route("/", web::get().to(async || HttpResponse::Ok().insert_header((NAME, "x-own, RateLimit")).finish()))
        .wrap(layer(limiter).rule(&PER_IP, |_: &ServiceRequest| key!("actix")))
        .wrap(layer(limiter).rule(&PER_KEY, |_: &ServiceRequest| key!("actix")));
    let on_actix = init_service(on_actix).await;
    let on_actix = async || actix::seen(call_service(&on_actix, TestRequest::get().to_request()).await).await;
    [
        ("axum", [on_axum().await, on_axum().await]),
        ("poem", [on_poem().await, on_poem().await]),
        ("actix-web", [on_actix().await, on_actix().await]),
    ]
}

#[tokio::test(start_paused = true)]
async fn fields_are_exposed_once_and_only_where_they_are() {
    for (framework, [served, refused]) in answers(&RateLimiter::memory()).await {
        assert_eq!(served.exposed, ["x-own", "RateLimit", "ratelimit-policy"], "{framework}");
        assert_eq!(refused.exposed, ["retry-after", "ratelimit-policy", "ratelimit"], "{framework}");
    }
    let legacy = RateLimiter::builder().responses(Responses::new().legacy_headers(true)).build().unwrap();
    for (framework, [_, refused]) in answers(&legacy).await {
        let expected = ["retry-after", "ratelimit-policy", "ratelimit"];
        let older = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
        assert_eq!(refused.exposed, [expected, older].concat(), "{framework}");
    }
}

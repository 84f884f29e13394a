//! A layer works out once what its rule is called, and not for each request.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use actix_web::dev::ServiceRequest;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, web};
use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use poem::{EndpointExt as _, Route};
use ratelimit_runtime::{Key, Limit, RateLimitClientLayer, RateLimitLayer, RateLimiter, Rule, key};
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

use crate::{axum_server, poem_server};

/// A rule whose name has to be worked out, and a count of how often it was.
macro_rules! counted {
    () => {{
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        fn path() -> &'static str {
            ASKED.fetch_add(1, Relaxed);
            concat!("of::line", line!(), "::Here")
        }
        (Rule::derived(path, Limit::per_minute(1000)), &ASKED)
    }};
}

fn layer() -> RateLimitLayer {
    RateLimitLayer::new().limiter(RateLimiter::memory())
}

/// How often more than at the first call.
async fn again<T>(asked: &AtomicUsize, call: impl AsyncFn() -> T) -> usize {
    let _ = call().await;
    let first = asked.load(Relaxed);
    assert!(first > 0);
    for _ in 0..5 {
        let _ = call().await;
    }
    asked.load(Relaxed) - first
}

#[tokio::test(start_paused = true)]
async fn a_layer_resolves_its_rule_once() {
    let (rule, asked) = counted!();
    let app = Router::new().route("/", get(async || "hello")).layer(layer().rule(&rule, |_: &Request| key!("all")));
    assert_eq!(again(asked, async || axum_server::ask(&app, axum_server::request("/")).await).await, 0);

    let (rule, asked) = counted!();
    let app = Route::new()
        .at("/", poem::endpoint::make_sync(|_| "hello"))
        .with(layer().rule(&rule, |_: &poem::Request| key!("all")));
    assert_eq!(again(asked, async || poem_server::ask(&app, poem_server::request("/")).await).await, 0);

    let (rule, asked) = counted!();
    let app = App::new()
        .route("/", web::get().to(async || "hello"))
        .wrap(layer().rule(&rule, |_: &ServiceRequest| key!("all")));
    let app = init_service(app).await;
    assert_eq!(again(asked, async || call_service(&app, TestRequest::get().to_request()).await).await, 0);

    let (rule, asked) = counted!();
    let client = RateLimitClientLayer::new(RateLimiter::memory(), &rule, |_: &&str| Key::of("ours"));
    let client = client.layer(service_fn(async |path: &'static str| Ok::<_, BoxError>(path)));
    assert_eq!(again(asked, async || client.clone().oneshot("/").await.unwrap()).await, 0);
}

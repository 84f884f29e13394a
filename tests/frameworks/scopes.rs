//! Answers follow the settings of the layer's limiter wherever they are made, and foreign errors
//! are left alone.

use std::convert::Infallible;
use std::future::ready;

use actix_web::App;
use actix_web::dev::{Service as _, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::test::{TestRequest, call_service, init_service, try_call_service};
use actix_web::web;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use poem::endpoint::make;
use poem::error::NotFoundError;
use poem::{EndpointExt as _, Route};
use ratelimit_runtime::store::StoreError;
use ratelimit_runtime::{Key, Limit, RateLimitError, RateLimitLayer, RateLimiter, Responses, Rule};
use serde_json::Value;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::{Seen, actix, axum_server, poem_server, search, standing};

/// A limiter whose answers differ from those of any other.
fn limiter() -> RateLimiter {
    RateLimiter::builder()
        .responses(Responses::new().problem_json())
        .build()
        .unwrap()
}

fn assert_ours(answer: &Seen, status: u16) {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    assert_eq!(
        (answer.status, &body["status"]),
        (status, &Value::from(status)),
        "{}",
        answer.body
    );
}

/// A service that answers as soon as it is called, in no future.
#[tokio::test(start_paused = true)]
async fn a_service_that_answers_in_its_call_answers_as_the_limiter_says() {
    let error = RateLimitError::from(StoreError::misconfigured("wrong"));
    let inner = service_fn(move |_: Request| {
        ready(Ok::<_, Infallible>(
            error.to_http_response().map(Body::from),
        ))
    });
    let service = RateLimitLayer::new().limiter(limiter()).layer(inner);
    let response = service.oneshot(axum_server::request("/")).await.unwrap();
    assert_ours(&axum_server::seen(response.map(Body::new)).await, 500);
}

/// What a middleware of actix-web inside of two layers answers to the third of its calls, with this
/// error.
async fn refused_in_middleware(error: fn(RateLimitError) -> actix_web::Error) -> Seen {
    let wide = Rule::named("wide", Limit::per_minute(9));
    let around = RateLimitLayer::new().limiter(limiter());
    let app = App::new()
        .route("/", web::get().to(async || "hello"))
        .wrap_fn(move |request, next| {
            let answer = next.call(request);
            async move {
                search("alice").await.map_err(error)?;
                answer.await
            }
        })
        .wrap(RateLimitLayer::new().limiter(limiter()))
        .wrap(around.rule(&wide, |_: &ServiceRequest| Key::global()));
    let app = init_service(app).await;
    for _ in 0..2 {
        let answer = call_service(&app, TestRequest::get().to_request()).await;
        assert_eq!(answer.status().as_u16(), 200);
    }
    let refused = try_call_service(&app, TestRequest::get().to_request()).await;
    actix::seen_of(refused.err().unwrap().error_response()).await
}

#[tokio::test(start_paused = true)]
async fn a_refused_middleware_of_actix_is_answered_as_the_limiter_says() {
    let ours = refused_in_middleware(actix_web::Error::from).await;
    assert_ours(&ours, 429);
    let foreign = refused_in_middleware(actix_web::error::ErrorTooManyRequests).await;
    assert_eq!(foreign.body, "too many requests, try again in 60s");
    for refused in [ours, foreign] {
        assert_eq!(
            (refused.status, refused.retry_after.as_deref()),
            (429, Some("60"))
        );
        let standings = [standing("search", 0, 60), standing("wide", 6, 60)];
        assert_eq!(refused.standings, standings);
    }
}

/// actix-web keeps ids in extensions, which cannot be copied.
#[tokio::test(start_paused = true)]
async fn a_body_on_actix_reads_what_a_middleware_around_the_layer_puts_into_a_header() {
    let responses = Responses::new().body(|refusal| {
        let id = refusal
            .request()
            .and_then(|request| request.headers.get("x-request-id"));
        let id = id.map(|id| id.to_str().unwrap().to_owned());
        ("text/plain", id.unwrap_or_default())
    });
    let limiter = RateLimiter::builder().responses(responses).build().unwrap();
    let app = App::new()
        .route("/", web::get().to(async || search("alice").await))
        .wrap(RateLimitLayer::new().limiter(limiter))
        .wrap_fn(|mut request, next| {
            let id = HeaderValue::from_static("7");
            let name = HeaderName::from_static("x-request-id");
            request.headers_mut().insert(name, id);
            next.call(request)
        });
    let app = init_service(app).await;
    for body in ["hello alice", "hello alice", "7"] {
        let answer = call_service(&app, TestRequest::get().to_request()).await;
        assert_eq!(actix::seen(answer).await.body, body);
    }
}

/// The status alone, 503, does not tell such an error from a foreign one.
#[tokio::test(start_paused = true)]
async fn an_unavailable_middleware_of_actix_has_the_fields_of_all_layers_around_it() {
    let wide = Rule::named("wide", Limit::per_minute(9));
    let around = RateLimitLayer::new().limiter(limiter());
    let app = App::new()
        .route("/", web::get().to(async || "hello"))
        .wrap_fn(|_, _| {
            let error = RateLimitError::Unavailable(StoreError::unavailable("down"));
            ready(Err::<ServiceResponse, _>(error.into()))
        })
        .wrap(RateLimitLayer::new().limiter(limiter()))
        .wrap(around.rule(&wide, |_: &ServiceRequest| Key::global()));
    let app = init_service(app).await;
    let unavailable = try_call_service(&app, TestRequest::get().to_request()).await;
    let unavailable = actix::seen_of(unavailable.err().unwrap().error_response()).await;
    assert_ours(&unavailable, 503);
    assert_eq!(unavailable.standings, [standing("wide", 8, 60)]);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_error_of_an_actix_middleware_is_left_alone() {
    let app = App::new()
        .route("/", web::get().to(async || "hello"))
        .wrap_fn(|_, _| {
            ready(Err::<ServiceResponse, _>(actix_web::error::ErrorImATeapot(
                "short and stout",
            )))
        })
        .wrap(RateLimitLayer::new().limiter(limiter()));
    let app = init_service(app).await;
    let error = try_call_service(&app, TestRequest::get().to_request())
        .await
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "short and stout");
    assert_eq!(error.error_response().status().as_u16(), 418);
}

#[tokio::test(start_paused = true)]
async fn errors_of_poem_but_refusals_reach_the_handlers_around_the_layer() {
    fn answered(error: RateLimitError) -> poem::Error {
        poem::Error::from_response(error.into())
    }
    let app = Route::new()
        .at("/refused", make(async |_| search("alice").await))
        .at(
            "/status",
            make(async |_| search("alice").await.map_err(StatusCode::from)),
        )
        .at(
            "/response",
            make(async |_| search("alice").await.map_err(answered)),
        )
        .with(RateLimitLayer::new().limiter(limiter()))
        .catch_error(async |_: NotFoundError| StatusCode::IM_A_TEAPOT);
    let ask = async |path| poem_server::ask(&app, poem_server::request(path)).await;
    assert_eq!(ask("/nowhere").await.status, 418);
    for path in ["/refused", "/status"] {
        assert_eq!(ask(path).await.status, 200);
    }
    for path in ["/refused", "/status", "/response"] {
        let refused = ask(path).await;
        assert_eq!(
            (refused.status, refused.retry_after.as_deref()),
            (429, Some("60")),
            "{path}"
        );
        assert_eq!(refused.standings, [standing("search", 0, 60)], "{path}");
    }
    assert_ours(&ask("/refused").await, 429);
}

//! Handlers whose return types are their framework's: refused as clients of that framework expect,
//! without `on_refused`.

use actix_web::body::to_bytes as actix_body;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, HttpResponse, web};
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use ratelimit_runtime::{RateLimitError, rate_limit};
use tower::ServiceExt as _;

use crate::alone;

const PLAIN: &str = "text/plain; charset=utf-8";
const REFUSED: &str = "too many requests, try again in 60s";
const BODY: &str = r#"{"code":429,"message":"too many requests, try again in 60s","data":null}"#;

#[rate_limit(window = "60s", max = 1)]
async fn response() -> Response {
    "done".into_response()
}

#[rate_limit(window = "60s", max = 1)]
async fn result_of_responses() -> Result<Response, Response> {
    Ok("done".into_response())
}

#[rate_limit(window = "60s", max = 1)]
async fn status_code() -> Result<&'static str, StatusCode> {
    Ok("done")
}

#[rate_limit(window = "60s", max = 1)]
async fn status_code_and_text() -> Result<&'static str, (StatusCode, String)> {
    Ok("done")
}

#[rate_limit(window = "60s", max = 1)]
async fn own_error() -> Result<&'static str, RateLimitError> {
    Ok("done")
}

/// Status, `Retry-After`, type and body.
async fn axum_parts(response: impl IntoResponse) -> (u16, Option<String>, Option<String>, String) {
    let (parts, body) = response.into_response().into_parts();
    let header = |headers: &HeaderMap, name| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let body = to_bytes(body, 1024).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    (
        parts.status.as_u16(),
        header(&parts.headers, "retry-after"),
        header(&parts.headers, "content-type"),
        text,
    )
}

fn json(body: &str) -> (u16, Option<String>, Option<String>, String) {
    (
        429,
        Some("60".to_owned()),
        Some("application/json".to_owned()),
        body.to_owned(),
    )
}

#[tokio::test(start_paused = true)]
async fn axum_handlers_are_refused_with_all_that_their_return_type_can_carry() {
    alone(async {
        for refused in [false, true] {
            let expected = if refused {
                json(BODY)
            } else {
                (200, None, Some(PLAIN.to_owned()), "done".to_owned())
            };
            assert_eq!(axum_parts(response().await).await, expected);
            assert_eq!(axum_parts(result_of_responses().await).await, expected);
            assert_eq!(axum_parts(own_error().await).await, expected);
            let (status, text) = (StatusCode::TOO_MANY_REQUESTS, REFUSED.to_owned());
            assert_eq!(
                status_code().await,
                if refused { Err(status) } else { Ok("done") }
            );
            assert_eq!(
                status_code_and_text().await,
                if refused {
                    Err((status, text))
                } else {
                    Ok("done")
                }
            );
        }
    })
    .await;
}

#[derive(serde::Deserialize)]
struct SendCode {
    email: String,
}

#[rate_limit(key = "<req.email>", window = "60s", max = 1)]
#[axum::debug_handler]
async fn debug_below(Json(req): Json<SendCode>) -> Result<Json<usize>, RateLimitError> {
    Ok(Json(req.email.len()))
}

#[axum::debug_handler]
#[rate_limit(key = "<req.email>", window = "60s", max = 1)]
async fn debug_above(Json(req): Json<SendCode>) -> Result<Json<usize>, RateLimitError> {
    Ok(Json(req.email.len()))
}

#[tokio::test]
async fn a_request_that_cannot_be_read_consumes_nothing() {
    let app = Router::new()
        .route("/below", post(debug_below))
        .route("/above", post(debug_above));
    let call = async |path: &str, body: &'static str| {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap();
        app.clone()
            .oneshot(request)
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    alone(async {
        for path in ["/below", "/above"] {
            for (body, status) in [
                ("{", 400),
                (r#"{"email":"a"}"#, 200),
                (r#"{"email":"a"}"#, 429),
            ] {
                assert_eq!(call(path, body).await, status, "{path}: {body}");
            }
        }
    })
    .await;
}

#[rate_limit(window = "60s", max = 1)]
async fn actix_result() -> Result<&'static str, actix_web::Error> {
    Ok("done")
}

#[rate_limit(window = "60s", max = 1)]
async fn actix_own_error() -> Result<&'static str, RateLimitError> {
    Ok("done")
}

#[rate_limit(window = "60s", max = 1)]
async fn actix_response() -> HttpResponse {
    HttpResponse::Ok().body("done")
}

async fn actix_parts(response: HttpResponse) -> (u16, Option<String>, Option<String>, String) {
    let header = |name| {
        response
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let (status, retry, kind) = (
        response.status().as_u16(),
        header("retry-after"),
        header("content-type"),
    );
    let body = actix_body(response.into_body()).await.unwrap();
    (
        status,
        retry,
        kind,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn actix_handlers_are_refused_like_axum_handlers() {
    alone(async {
        let app = App::new()
            .route("/result", web::get().to(actix_result))
            .route("/own_error", web::get().to(actix_own_error))
            .route("/response", web::get().to(actix_response));
        let app = init_service(app).await;
        for path in ["/result", "/own_error", "/response"] {
            let call = || call_service(&app, TestRequest::get().uri(path).to_request());
            let (_, admitted) = call().await.into_parts();
            assert_eq!(
                actix_parts(admitted.map_into_boxed_body()).await.3,
                "done",
                "{path}"
            );
            let (_, refused) = call().await.into_parts();
            assert_eq!(
                actix_parts(refused.map_into_boxed_body()).await,
                json(BODY),
                "{path}"
            );
        }
    })
    .await;
}

/// Its field is private, so that a pattern cannot take it apart.
#[rate_limit(key = *id, window = "60s", max = 1)]
async fn actix_by_path(id: web::Path<u64>) -> Result<String, RateLimitError> {
    Ok(id.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_path_of_actix_is_a_key_by_its_target() {
    alone(async {
        let app = App::new().route("/{id}", web::get().to(actix_by_path));
        let app = init_service(app).await;
        for (path, status) in [("/7", 200), ("/7", 429), ("/8", 200)] {
            let request = TestRequest::get().uri(path).to_request();
            assert_eq!(call_service(&app, request).await.status(), status, "{path}");
        }
    })
    .await;
}

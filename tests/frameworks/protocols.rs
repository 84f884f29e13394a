//! Requests that are answered as gRPC, with a status of its own in a `200`: only clients that read
//! it get it, and no cache keeps it.

use std::convert::Infallible;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, Response, Version};
use ratelimit_runtime::{
    HeaderKey, Limit, RateLimitError, RateLimitLayer, RateLimiter, Responses, Rule, key, rate_limit,
};
use tonic::Status;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::ApiKey;

static ONE: Rule = Rule::new("one", Limit::per_minute(1));

type Service = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

fn limited() -> Service {
    limited_by(RateLimiter::memory())
}

fn limited_by(limiter: RateLimiter) -> Service {
    let layer = RateLimitLayer::new()
        .limiter(limiter)
        .rule(&ONE, |request: &Request<Body>| {
            HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
        });
    let service = layer.layer(service_fn(async |_| {
        Ok(Response::new(Body::from("served")))
    }));
    BoxCloneSyncService::new(service.map_response(|response| response.map(Body::new)))
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

async fn ask(
    service: &Service,
    method: &Method,
    version: Version,
    kind: &str,
    api_key: Option<&str>,
) -> Answer {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method.clone();
    *request.version_mut() = version;
    request
        .headers_mut()
        .insert("content-type", kind.parse().unwrap());
    if let Some(api_key) = api_key {
        request
            .headers_mut()
            .insert("x-api-key", api_key.parse().unwrap());
    }
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let body = String::from_utf8(to_bytes(body, 65_536).await.unwrap().to_vec()).unwrap();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    }
}

const METHODS: [Method; 5] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::OPTIONS,
];
const VERSIONS: [Version; 5] = [
    Version::HTTP_09,
    Version::HTTP_10,
    Version::HTTP_11,
    Version::HTTP_2,
    Version::HTTP_3,
];
const GRPC: [&str; 5] = [
    "application/grpc",
    "application/grpc+proto",
    "application/grpc+json",
    "application/grpc;charset=utf-8",
    "Application/gRPC",
];
const WEB: [&str; 4] = [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/grpc-web-text+proto; x=y",
];
const OTHER: [&str; 5] = [
    "application/json",
    "application/grpcx",
    "application/grp",
    "application/grpc-websocket",
    "*/*",
];

#[tokio::test(start_paused = true)]
async fn a_refusal_is_no_success_that_a_cache_could_keep_whatever_a_client_sends() {
    let service = limited();
    assert_eq!(
        ask(&service, &Method::GET, Version::HTTP_11, "*/*", Some("a"))
            .await
            .body,
        "served"
    );
    for kind in GRPC.iter().chain(&WEB).chain(&OTHER) {
        for method in &METHODS {
            for version in VERSIONS {
                let is_grpc =
                    GRPC.contains(kind) && method == Method::POST && version == Version::HTTP_2;
                for (api_key, status, code) in [(Some("a"), 429, "8"), (None, 400, "3")] {
                    let answer = ask(&service, method, version, kind, api_key).await;
                    let what = format!("{method} {version:?} {kind} {api_key:?}");
                    assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}");
                    assert_eq!(answer.status, if is_grpc { 200 } else { status }, "{what}");
                    if is_grpc {
                        assert_eq!(answer.header("grpc-status"), Some(code), "{what}");
                        assert_eq!(
                            answer.header("content-type"),
                            Some("application/grpc"),
                            "{what}"
                        );
                    }
                }
            }
        }
    }
}

/// A client in a browser reads the status of HTTP, and the fields where it knows the type of the
/// answer.
#[tokio::test(start_paused = true)]
async fn grpc_web_gets_a_status_of_http_and_its_own() {
    let service = limited();
    let _ = ask(&service, &Method::GET, Version::HTTP_11, "*/*", Some("a")).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for kind in WEB {
            let refused = ask(&service, &Method::POST, version, kind, Some("a")).await;
            let own = if kind.contains("text") {
                "application/grpc-web-text"
            } else {
                "application/grpc-web"
            };
            assert_eq!((refused.status, refused.body.as_str()), (429, ""), "{kind}");
            assert_eq!(refused.header("content-type"), Some(own), "{kind}");
            assert_eq!(
                (refused.header("grpc-status"), refused.header("retry-after")),
                (Some("8"), Some("60"))
            );
            assert_eq!(
                refused.header("grpc-message"),
                Some("too many requests, try again in 60s")
            );
            let missing = ask(&service, &Method::POST, version, kind, None).await;
            assert_eq!(
                (missing.status, missing.header("grpc-status")),
                (400, Some("3")),
                "{kind}"
            );
            assert_eq!(missing.header("content-type"), Some(own), "{kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn grpc_web_is_told_how_to_log_in_as_http_is() {
    let responses = Responses::new().unauthorized("ApiKey realm=\"orders\"");
    let service = limited_by(RateLimiter::builder().responses(responses).build().unwrap());
    let http = ask(&service, &Method::GET, Version::HTTP_11, "*/*", None).await;
    let web = ask(&service, &Method::POST, Version::HTTP_11, WEB[0], None).await;
    for answer in [&http, &web] {
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (401, Some("ApiKey realm=\"orders\""))
        );
    }
    assert_eq!(
        (web.header("grpc-status"), web.body.as_str()),
        (Some("16"), "")
    );
    let grpc = ask(&service, &Method::POST, Version::HTTP_2, GRPC[0], None).await;
    assert_eq!(
        (grpc.status, grpc.header("grpc-status"), grpc.body.as_str()),
        (200, Some("16"), "")
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_key_function_is_not_stored_unless_it_allows_that() {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory()).rule(
        &ONE,
        |request: &Request<Body>| {
            let mut response = Response::new(Body::from("who are you?"));
            if let Some(value) = request.headers().get("x-api-key") {
                response
                    .headers_mut()
                    .insert("cache-control", value.clone());
            }
            Err::<ratelimit_runtime::Key, _>(response)
        },
    );
    let service = layer.layer(service_fn(async |_| Ok(Response::new(Body::empty()))));
    let service =
        BoxCloneSyncService::new(service.map_response(|response| response.map(Body::new)));
    for (said, cached) in [(None, "no-store"), (Some("max-age=60"), "max-age=60")] {
        let answer = ask(&service, &Method::GET, Version::HTTP_11, "*/*", said).await;
        assert_eq!(answer.header("cache-control"), Some(cached));
    }
}

#[rate_limit(window = "60s", max = 1)]
async fn method() -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_status_of_a_method_is_not_to_be_stored() {
    let refused = RateLimiter::memory()
        .scope(async {
            method().await.unwrap();
            method().await.unwrap_err()
        })
        .await;
    let missing = HeaderKey::<ApiKey>::of(&HeaderMap::new()).unwrap_err();
    for status in [Status::from(refused), Status::from(missing)] {
        assert_eq!(
            status.metadata().get("cache-control").unwrap(),
            "no-store",
            "{status}"
        );
    }
}

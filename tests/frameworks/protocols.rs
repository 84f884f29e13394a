//! Which protocol a request is answered in place of its handler in: the one that its layer is for,
//! whatever the request says. No cache keeps such an answer.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, HttpBody as _, to_bytes};
use axum::http::{HeaderMap, Method, Request, Response, Version};
use axum::routing::post;
use ratelimit_runtime::{
    HeaderKey, Key, KeyRejection, Limit, RateLimitError, RateLimitLayer, RateLimiter, Responses,
    Rule, key, rate_limit,
};
use tonic::Status;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::ApiKey;
use crate::tonic_server::connected;

static ONE: Rule = Rule::new("one", Limit::per_minute(1));

type Service = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// What a layer is around.
fn inner() -> Service {
    BoxCloneSyncService::new(service_fn(async |_| {
        Ok(Response::new(Body::from("served")))
    }))
}

fn by_api_key(request: &Request<Body>) -> Result<Key, KeyRejection> {
    HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
}

fn limited() -> Service {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory());
    let service = layer.rule(&ONE, by_api_key).layer(inner());
    BoxCloneSyncService::new(service.map_response(|response| response.map(Body::new)))
}

fn limited_over_grpc(limiter: RateLimiter) -> Service {
    let layer = RateLimitLayer::new().limiter(limiter).grpc();
    let service = layer.rule(&ONE, by_api_key).layer(inner());
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
    let told = (body.size_hint().exact(), body.is_end_stream());
    let body = String::from_utf8(to_bytes(body, 65_536).await.unwrap().to_vec()).unwrap();
    // A body without a length is sent in chunks, and an answer of grpc ends with its headers.
    assert_eq!(told, (Some(body.len() as u64), body.is_empty()));
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
const KINDS: [&str; 6] = [
    "application/grpc",
    "application/grpc+proto",
    "Application/gRPC",
    "application/grpc-web",
    "application/grpc-web-text+proto; x=y",
    "application/json",
];

#[tokio::test(start_paused = true)]
async fn a_layer_answers_http_whatever_a_client_sends() {
    let service = limited();
    assert_eq!(
        ask(&service, &Method::GET, Version::HTTP_11, "*/*", Some("a"))
            .await
            .body,
        "served"
    );
    for kind in KINDS {
        for method in &METHODS {
            for version in VERSIONS {
                for (api_key, status) in [(Some("a"), 429), (None, 400)] {
                    let answer = ask(&service, method, version, kind, api_key).await;
                    let what = format!("{method} {version:?} {kind} {api_key:?}");
                    assert_eq!(answer.status, status, "{what}");
                    assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}");
                    assert_eq!(
                        answer.header("content-type"),
                        Some("application/json"),
                        "{what}"
                    );
                    assert_eq!(answer.header("grpc-status"), None, "{what}");
                }
            }
        }
    }
}

/// Whoever counts 429s, as a firewall does, counts these.
#[tokio::test]
async fn a_plain_route_refuses_grpc_over_http_2_with_429() {
    let layer = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .rule(&ONE, |_: &Request<Body>| Key::global());
    let app = Router::new()
        .route("/orders", post(async || "ordered"))
        .layer(layer)
        .map_request(|request: Request<tonic::body::Body>| request.map(Body::new))
        .map_response(|response| response.map(tonic::body::Body::new));
    let mut client = connected(BoxCloneSyncService::new(app)).await;
    let mut order = async || {
        let request = Request::post("/orders").header("content-type", "application/grpc");
        let request = request.body(tonic::body::Body::empty()).unwrap();
        client.ready().await.unwrap().call(request).await.unwrap()
    };
    let (admitted, refused) = (order().await, order().await);
    assert_eq!(
        [&admitted, &refused].map(|answer| answer.status().as_u16()),
        [200, 429]
    );
    assert_eq!(refused.version(), Version::HTTP_2);
    assert_eq!(refused.headers().get("grpc-status"), None);
}

#[tokio::test(start_paused = true)]
async fn a_layer_for_grpc_answers_grpc_whatever_a_client_sends() {
    let service = limited_over_grpc(RateLimiter::memory());
    let _ = ask(&service, &Method::POST, Version::HTTP_2, "*/*", Some("a")).await;
    for kind in KINDS {
        for (api_key, code) in [(Some("a"), "8"), (None, "3")] {
            let answer = ask(&service, &Method::POST, Version::HTTP_11, kind, api_key).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{kind}");
            assert_eq!(answer.header("grpc-status"), Some(code), "{kind}");
            assert_eq!(answer.header("content-type"), Some("application/grpc"));
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_credential_is_unauthenticated_over_grpc() {
    let responses = Responses::new().unauthorized("ApiKey realm=\"orders\"");
    let limiter = RateLimiter::builder().responses(responses).build().unwrap();
    let service = limited_over_grpc(limiter);
    let answer = ask(&service, &Method::POST, Version::HTTP_2, KINDS[0], None).await;
    assert_eq!(
        (answer.status, answer.header("grpc-status")),
        (200, Some("16"))
    );
}

/// A key function of tonic answers as a method does.
#[tokio::test(start_paused = true)]
async fn a_status_of_the_key_function_is_the_answer() {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory()).grpc();
    let layer = layer.rule(&ONE, |_: &Request<Body>| {
        Err::<Key, _>(Status::permission_denied("who are you?"))
    });
    let service = layer.layer(inner());
    let service =
        BoxCloneSyncService::new(service.map_response(|response| response.map(Body::new)));
    let answer = ask(&service, &Method::POST, Version::HTTP_2, KINDS[0], None).await;
    assert_eq!(
        (answer.status, answer.header("grpc-status")),
        (200, Some("7"))
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
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
            Err::<Key, _>(response)
        },
    );
    let service = layer.layer(inner());
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

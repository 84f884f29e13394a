//! The layer beside each layer of tower-http in a `ServiceBuilder`: around it, and inside of it.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HeaderValue, ORIGIN, SERVER,
};
use axum::http::{Response, StatusCode};
use axum::routing::get;
use ratelimit_runtime::{Key, Limit, RateLimitLayer, RateLimiter, Rule};
use tower::{ServiceBuilder, ServiceExt as _};
use tower_http::add_extension::AddExtensionLayer;
use tower_http::auth::AsyncRequireAuthorizationLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::decompression::{DecompressionLayer, RequestDecompressionLayer};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::map_request_body::MapRequestBodyLayer;
use tower_http::map_response_body::MapResponseBodyLayer;
use tower_http::metrics::InFlightRequestsLayer;
use tower_http::normalize_path::NormalizePathLayer;
use tower_http::on_early_drop::OnEarlyDropLayer;
use tower_http::propagate_header::PropagateHeaderLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveHeadersLayer;
use tower_http::set_header::{SetRequestHeaderLayer, SetResponseHeaderLayer};
use tower_http::set_status::SetStatusLayer;
use tower_http::timeout::{RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutLayer};
use tower_http::trace::TraceLayer;
use tower_http::validate_request::ValidateRequestHeaderLayer;

static ONE: Rule = Rule::new("one", Limit::per_minute(1));

const MINUTE: Duration = Duration::from_secs(60);

/// A layer that admits one request, of any body: layers around it may change that.
macro_rules! limits {
    () => {
        RateLimitLayer::new()
            .limiter(RateLimiter::memory())
            .rule(&ONE, |_: &Request<_>| Key::global())
    };
}

fn app() -> Router {
    Router::new().route("/", get(async || "served"))
}

/// Which of two requests are told to come back.
async fn refused(app: Router) -> [bool; 2] {
    let mut refused = [false; 2];
    for refused in &mut refused {
        let request = Request::get("/").header(ACCEPT, "text/plain");
        let request = request.body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        *refused = response.headers().contains_key("retry-after");
    }
    refused
}

macro_rules! beside {
    ($($name:ident: $layer:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let around = app().layer(ServiceBuilder::new().layer($layer).layer(limits!()));
            let inside = app().layer(ServiceBuilder::new().layer(limits!()).layer($layer));
            for app in [around, inside] {
                assert_eq!(refused(app).await, [false, true]);
            }
        }
    )*};
}

beside! {
    add_extension: AddExtensionLayer::new(7_u8);
    async_require_authorization: AsyncRequireAuthorizationLayer::new(async |request: Request<_>| {
        Ok::<_, Response<_>>(request)
    });
    catch_panic: CatchPanicLayer::new();
    compression: CompressionLayer::new();
    cors: CorsLayer::permissive();
    decompression: DecompressionLayer::new();
    in_flight_requests: InFlightRequestsLayer::pair().0;
    map_request_body: MapRequestBodyLayer::new(Body::new);
    map_response_body: MapResponseBodyLayer::new(Body::new);
    normalize_path: NormalizePathLayer::trim_trailing_slash();
    on_early_drop: OnEarlyDropLayer::builder();
    propagate_header: PropagateHeaderLayer::new(ACCEPT);
    propagate_request_id: PropagateRequestIdLayer::x_request_id();
    request_body_limit: RequestBodyLimitLayer::new(1_024);
    request_body_timeout: RequestBodyTimeoutLayer::new(MINUTE);
    request_decompression: RequestDecompressionLayer::new();
    response_body_timeout: ResponseBodyTimeoutLayer::new(MINUTE);
    set_request_header:
        SetRequestHeaderLayer::overriding(ACCEPT, HeaderValue::from_static("text/html"));
    set_request_id: SetRequestIdLayer::x_request_id(MakeRequestUuid);
    set_response_header:
        SetResponseHeaderLayer::overriding(SERVER, HeaderValue::from_static("shop"));
    set_sensitive_headers: SetSensitiveHeadersLayer::new([AUTHORIZATION]);
    set_status: SetStatusLayer::new(StatusCode::ACCEPTED);
    timeout: TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, MINUTE);
    trace: TraceLayer::new_for_http();
    trace_of_grpc: TraceLayer::new_for_grpc();
    validate_request_header: ValidateRequestHeaderLayer::accept("text/plain");
}

#[tokio::test]
async fn two_layers_with_others_between_and_around_them() {
    let plain = || RateLimitLayer::new().limiter(RateLimiter::memory());
    let order = ServiceBuilder::new()
        .layer(CorsLayer::permissive())
        .layer(plain())
        .layer(ValidateRequestHeaderLayer::accept("text/plain"))
        .layer(plain().rule(&ONE, |_: &Request<_>| Key::global()));
    assert_eq!(refused(app().layer(order)).await, [false, true]);
}

/// As the guide has it: `CorsLayer` is around the limits.
#[tokio::test]
async fn preflight_requests_are_not_charged_inside_of_cors() {
    let order = ServiceBuilder::new().layer(CorsLayer::permissive());
    let app = app().layer(order.layer(limits!()));
    for _ in 0..2 {
        let preflight = Request::options("/")
            .header(ORIGIN, "https://shop.example")
            .header(ACCESS_CONTROL_REQUEST_METHOD, "GET");
        let preflight = preflight.body(Body::empty()).unwrap();
        let response = app.clone().oneshot(preflight).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
    assert_eq!(refused(app).await, [false, true]);
}

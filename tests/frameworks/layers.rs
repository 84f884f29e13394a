//! The layer beside each layer of tower and tower-http in a `ServiceBuilder`: around it, and inside
//! of it.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::dev::ServiceRequest;
use axum::Router;
use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HeaderValue, ORIGIN, SERVER,
};
use axum::http::{Method, Response, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::get;
use poem::EndpointExt as _;
use ratelimit_runtime::layer::{Grpc, Limited};
use ratelimit_runtime::{Key, Limit, RateLimitLayer, RateLimiter, Rule, by_client_ip};
use tonic::Status;
use tonic::body::Body as TonicBody;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tower::buffer::BufferLayer;
use tower::limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer};
use tower::load_shed::LoadShedLayer;
use tower::util::{BoxCloneService, option_layer};
use tower::{BoxError, Layer as _, Service as _, ServiceBuilder, ServiceExt as _};
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
        limits!(Key::global())
    };
    ($key:expr) => {
        RateLimitLayer::new()
            .limiter(RateLimiter::memory())
            .rule(&ONE, |_: &Request<_>| $key)
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

/// A response of axum needs the body that it has itself; a status is text.
#[tokio::test]
async fn key_functions_answer_around_layers_that_change_the_body() {
    macro_rules! answers {
        ($($layer:expr),*) => {$({
            let request = || Request::new(Body::empty());
            let limits = limits!(Err::<Key, _>(StatusCode::GONE.into_response()));
            let order = ServiceBuilder::new().layer(limits);
            let order = order.layer(MapResponseBodyLayer::new(Body::new)).layer($layer);
            let gone = app().layer(order).oneshot(request()).await.unwrap();
            assert_eq!(gone.status(), StatusCode::GONE);
            let limits = limits!(Err::<Key, _>(Status::not_found("gone"))).grpc();
            let order = ServiceBuilder::new().layer(limits).layer($layer);
            let gone = order.service(app()).oneshot(request()).await.unwrap();
            assert_eq!(gone.headers()["grpc-status"], "5");
            assert_eq!(gone.headers()["cache-control"], "no-store");
        })*};
    }
    answers!(
        DecompressionLayer::new(),
        InterceptorLayer::new(Ok::<tonic::Request<()>, Status>)
    );
}

beside! {
    add_extension: AddExtensionLayer::new(7_u8);
    async_require_authorization: AsyncRequireAuthorizationLayer::new(async |request: Request<_>| {
        Ok::<_, Response<_>>(request)
    });
    catch_panic: CatchPanicLayer::new();
    compression: CompressionLayer::new();
    concurrency_limit: ConcurrencyLimitLayer::new(8);
    cors: CorsLayer::permissive();
    decompression: DecompressionLayer::new();
    in_flight_requests: InFlightRequestsLayer::pair().0;
    interceptor: InterceptorLayer::new(Ok::<tonic::Request<()>, Status>);
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

/// Layers of tower whose errors axum asks to be answered.
macro_rules! beside_fallible {
    ($($name:ident: $layer:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let answered = || {
                let answer = async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE;
                ServiceBuilder::new().layer(HandleErrorLayer::new(answer))
            };
            let around = app().layer(answered().layer($layer).layer(limits!()));
            let inside = app().layer(answered().layer(limits!()).layer($layer));
            let answered_inside = ServiceBuilder::new().layer(limits!());
            let answered_inside = app().layer(answered_inside.layer(answered().layer($layer)));
            for app in [around, inside, answered_inside] {
                assert_eq!(refused(app).await, [false, true]);
            }
        }
    )*};
}

beside_fallible! {
    buffer: BufferLayer::new(8);
    load_shed: LoadShedLayer::new();
    timeout_of_tower: tower::timeout::TimeoutLayer::new(MINUTE);
}

/// Boxed, so that both ways have one body.
#[tokio::test]
async fn a_layer_is_optional_where_its_body_is_mapped_to_that_of_axum() {
    for is_on in [true, false] {
        let optional = is_on.then(|| (MapResponseBodyLayer::new(Body::new), limits!()));
        assert_eq!(
            refused(app().layer(option_layer(optional))).await,
            [false, is_on]
        );
    }
}

#[tokio::test]
async fn a_boxed_service_is_limited_and_a_limited_one_is_boxed() {
    let limited = limits!().layer(BoxCloneService::new(app()));
    let limited = BoxCloneService::new(limited);
    for status in [200, 429] {
        let request = Request::new(Body::empty());
        assert_eq!(
            limited.clone().oneshot(request).await.unwrap().status(),
            status
        );
    }
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

/// A place that the service has reserved to be ready is free again for others.
#[tokio::test]
async fn a_request_without_a_key_takes_no_place_of_the_service() {
    let places = GlobalConcurrencyLimitLayer::new(1);
    let mut limited = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .rule(&ONE, by_client_ip)
        .layer(places.layer(app()));
    let ready = limited.ready().await.unwrap();
    let answer = ready.call(Request::new(Body::empty())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let other = places.layer(app()).oneshot(Request::new(Body::empty()));
    let served = tokio::time::timeout(Duration::from_secs(5), other).await;
    assert!(served.is_ok(), "the place is taken");
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

fn exempt_twice() -> RateLimitLayer<Limited<Request, axum::response::Response>> {
    limits!()
        .skip(|request| request.uri().path() == "/health")
        .skip(|request| request.method() == Method::OPTIONS)
}

#[tokio::test]
async fn each_skip_exempts_requests() {
    let app = Router::new().fallback(async || "served");
    let app = app.layer(exempt_twice());
    for (method, path, status) in [
        (Method::GET, "/health", 200),
        (Method::OPTIONS, "/orders", 200),
        (Method::GET, "/orders", 200),
        (Method::GET, "/orders", 429),
        (Method::GET, "/health", 200),
        (Method::OPTIONS, "/orders", 200),
    ] {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
    }
}

/// Where each limit is a layer of its own, and a setting says how many there are.
#[tokio::test]
async fn layers_with_rules_are_kept_in_a_list() {
    for (layers, second_is_refused) in [(2, true), (0, false)] {
        let layers: Vec<_> = (0..layers).map(|_| exempt_twice()).collect();
        let limited = layers.into_iter().fold(app(), Router::layer);
        assert_eq!(refused(limited).await, [false, second_is_refused]);
    }
}

fn of_actix() -> RateLimitLayer<Limited<ServiceRequest, HttpResponse>> {
    RateLimitLayer::new().rule(&ONE, by_client_ip)
}

fn of_poem() -> RateLimitLayer<Limited<poem::Request, poem::Response>> {
    RateLimitLayer::new().rule(&ONE, by_client_ip)
}

type OfTonic = Limited<axum::http::Request<TonicBody>, Response<TonicBody>>;

fn of_tonic() -> RateLimitLayer<OfTonic, Grpc> {
    RateLimitLayer::new().rule(&ONE, by_client_ip).grpc()
}

/// They compile.
#[test]
fn layers_of_functions_are_layers_of_their_frameworks() {
    let _ = actix_web::App::new().wrap(of_actix());
    let _ = poem::Route::new().with(of_poem());
    let _ = Server::builder().layer(of_tonic());
}

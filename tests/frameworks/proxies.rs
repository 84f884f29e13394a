//! Whose address a request comes from behind proxies, in each framework.

use std::net::{IpAddr, SocketAddr};

use actix_web::body::BoxBody;
use actix_web::{App, dev, web};
use axum::extract::ConnectInfo;
use poem::{EndpointExt as _, Route, handler};
use ratelimit_runtime::{
    ClientIp, HeaderKey, Key, Limit, RateLimitLayer, RateLimiter, Rule, TrustedProxies, by_client_ip,
};
use tonic::codegen::http;
use tower::{ServiceExt as _, service_fn};

use crate::ApiKey;

/// A header field as it was sent.
type Field<'a> = (&'static str, &'a [u8]);

/// A status, and a body.
type Said = (u16, String);

fn private() -> TrustedProxies {
    TrustedProxies::new(["10.0.0.0/8"]).unwrap()
}

fn socket(peer: &str) -> SocketAddr {
    SocketAddr::new(peer.parse::<IpAddr>().unwrap(), 4711)
}

async fn axum_says(layer: RateLimitLayer, peer: &str, fields: &[Field<'_>]) -> Said {
    let app = axum::Router::new().route("/", axum::routing::get(async |ip: ClientIp| ip.to_string())).layer(layer);
    let mut request = http::Request::builder().uri("/");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let mut request = request.body(axum::body::Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo(socket(peer)));
    let response = app.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 65_536).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn whoami(ip: ClientIp) -> String {
    ip.to_string()
}

fn actix_request(peer: &str, fields: &[Field<'_>]) -> actix_web::test::TestRequest {
    let mut request = actix_web::test::TestRequest::get().uri("/").peer_addr(socket(peer));
    for (name, value) in fields {
        request = request.append_header((*name, *value));
    }
    request
}

/// What an app of actix-web says, whose type cannot be named.
macro_rules! actix_app_says {
    ($app:expr, $peer:expr, $fields:expr) => {{
        let request = actix_request($peer, $fields).to_request();
        let response = actix_web::test::call_service($app, request).await;
        let status = response.status().as_u16();
        (status, String::from_utf8(actix_web::test::read_body(response).await.to_vec()).unwrap())
    }};
}

async fn actix_says(layer: RateLimitLayer, peer: &str, fields: &[Field<'_>]) -> Said {
    let app = App::new().route("/", web::get().to(whoami)).wrap(layer);
    actix_app_says!(&actix_web::test::init_service(app).await, peer, fields)
}

#[handler]
fn poem_whoami(ip: ClientIp) -> String {
    ip.to_string()
}

fn poem_request(peer: &str, fields: &[Field<'_>]) -> poem::Request {
    let (parts, ()) = http::Request::new(()).into_parts();
    let peer = poem::web::RemoteAddr(socket(peer).into());
    let parts = (parts, poem::web::LocalAddr::default(), peer, http::uri::Scheme::HTTP);
    let mut request = poem::Request::from_parts(parts.into(), poem::Body::empty());
    for (name, value) in fields {
        request.headers_mut().append(*name, http::HeaderValue::from_bytes(value).unwrap());
    }
    request
}

async fn poem_says(layer: RateLimitLayer, peer: &str, fields: &[Field<'_>]) -> Said {
    let app = Route::new().at("/", poem::get(poem_whoami)).with(layer);
    let response = Box::pin(poem::Endpoint::get_response(&app, poem_request(peer, fields))).await;
    (response.status().as_u16(), response.into_body().into_string().await.unwrap())
}

/// A method of tonic as its layer hands it the request.
async fn tonic_says(layer: RateLimitLayer, peer: &str, fields: &[Field<'_>]) -> Said {
    use tonic::codegen::http::{Request, Response};
    use tower::Layer as _;
    let method = service_fn(async |request: Request<()>| {
        let (parts, ()) = request.into_parts();
        let metadata = tonic::metadata::MetadataMap::from_headers(parts.headers);
        let request = tonic::Request::from_parts(metadata, parts.extensions, ());
        let said = match ClientIp::try_from(&request) {
            Ok(ip) => (200, ip.to_string()),
            Err(status) if status.code() == tonic::Code::InvalidArgument => (400, status.message().to_owned()),
            Err(status) => (500, status.message().to_owned()),
        };
        Ok::<_, std::convert::Infallible>(Response::new(said))
    });
    let mut request = Request::builder();
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let mut request = request.body(()).unwrap();
    let connection = tonic::transport::server::TcpConnectInfo { local_addr: None, remote_addr: Some(socket(peer)) };
    request.extensions_mut().insert(connection);
    layer.layer(method).oneshot(request).await.unwrap().into_body()
}

/// What each framework says to a request.
async fn all_say(layer: impl Fn() -> RateLimitLayer, peer: &str, fields: &[Field<'_>]) -> [(&'static str, Said); 4] {
    [
        ("axum", axum_says(layer(), peer, fields).await),
        ("actix-web", actix_says(layer(), peer, fields).await),
        ("poem", poem_says(layer(), peer, fields).await),
        ("tonic", tonic_says(layer(), peer, fields).await),
    ]
}

async fn assert_client(proxies: &TrustedProxies, fields: &[Field<'_>], expected: &str) {
    for (framework, said) in
        all_say(|| RateLimitLayer::new().trusted_proxies(proxies.clone()), "10.0.0.1", fields).await
    {
        assert_eq!(said, (200, expected.to_owned()), "{framework}: {fields:?}");
    }
}

#[tokio::test]
async fn a_byte_that_is_not_ascii_does_not_make_the_client_the_proxy() {
    assert_client(&private(), &[("x-forwarded-for", b"\xe9, 9.9.9.9")], "9.9.9.9").await;
    assert_client(&private(), &[("x-forwarded-for", b"\xe9"), ("x-forwarded-for", b"9.9.9.9, 10.0.0.2")], "9.9.9.9")
        .await;
}

#[tokio::test]
async fn clients_that_forwarded_names_are_told_apart() {
    let forwarded = private().header("Forwarded").unwrap();
    assert_client(&forwarded, &[("forwarded", b"for=9.9.9.9;proto=https")], "9.9.9.9").await;
    assert_client(&forwarded, &[("forwarded", b"for=1.1.1.1, for=\"[2001:db8::1]:4711\"")], "2001:db8::1").await;
}

#[tokio::test]
async fn networks_of_ipv4_written_as_ipv6_are_trusted() {
    let mapped = TrustedProxies::new(["::ffff:10.0.0.0/104"]).unwrap();
    assert_client(&mapped, &[("x-forwarded-for", b"9.9.9.9")], "9.9.9.9").await;
}

/// As `app_data` of an app, of a scope or a resource, by itself or as `Data`; also for middleware
/// of that place.
#[tokio::test]
async fn app_data_of_actix_says_whom_to_trust() {
    use actix_web::test::init_service;
    let named: &[Field<'_>] = &[("x-forwarded-for", b"9.9.9.9")];
    let expected = (200, "9.9.9.9".to_owned());

    let app = init_service(App::new().app_data(private()).route("/", web::get().to(whoami))).await;
    assert_eq!(actix_app_says!(&app, "10.0.0.1", named), expected, "of an app");
    let app = init_service(App::new().app_data(web::Data::new(private())).route("/", web::get().to(whoami))).await;
    assert_eq!(actix_app_says!(&app, "10.0.0.1", named), expected, "of an app, as Data");
    let scope = web::scope("").app_data(private()).route("/", web::get().to(whoami));
    let app = init_service(App::new().service(scope)).await;
    assert_eq!(actix_app_says!(&app, "10.0.0.1", named), expected, "of a scope");
    let resource = web::resource("/").app_data(private()).route(web::get().to(whoami));
    let app = init_service(App::new().service(resource)).await;
    assert_eq!(actix_app_says!(&app, "10.0.0.1", named), expected, "of a resource");

    let app = init_service(App::new().app_data(private()).wrap(actix_web::middleware::from_fn(of_middleware))).await;
    let request = actix_request("10.0.0.1", named).to_request();
    let error = actix_web::test::try_call_service(&app, request).await.err().unwrap();
    assert_eq!(error.to_string(), "9.9.9.9", "middleware of the app");
    let scope = web::scope("").app_data(private()).wrap(actix_web::middleware::from_fn(of_middleware));
    let app = init_service(App::new().service(scope)).await;
    let request = actix_request("10.0.0.1", named).to_request();
    let error = actix_web::test::try_call_service(&app, request).await.err().unwrap();
    assert_eq!(error.to_string(), "9.9.9.9", "middleware of a scope");
}

/// Says as an error who the client is.
async fn of_middleware(
    request: dev::ServiceRequest,
    _: actix_web::middleware::Next<BoxBody>,
) -> Result<dev::ServiceResponse<BoxBody>, actix_web::Error> {
    Err(actix_web::error::ErrorImATeapot(ClientIp::try_from(&request).unwrap().to_string()))
}

#[tokio::test]
async fn trusted_proxies_of_a_limiter_reach_every_layer_and_layers_override_them() {
    let limiter = RateLimiter::builder().trusted_proxies(private()).build().unwrap();
    let fields: &[Field<'_>] = &[("x-forwarded-for", b"9.9.9.9")];
    for (framework, said) in all_say(|| RateLimitLayer::new().limiter(limiter.clone()), "10.0.0.1", fields).await {
        assert_eq!(said, (200, "9.9.9.9".to_owned()), "{framework}");
    }
    let in_force = limiter.scope(all_say(RateLimitLayer::new, "10.0.0.1", fields)).await;
    for (framework, said) in in_force {
        assert_eq!(said, (200, "9.9.9.9".to_owned()), "{framework}");
    }
    let headers = fields
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_bytes(value).unwrap()));
    let by_hand = limiter.scope(async { ClientIp::of([10, 0, 0, 1].into(), &headers.collect()) }).await;
    assert_eq!(by_hand.unwrap().to_string(), "9.9.9.9", "without a framework");
    let overridden = || RateLimitLayer::new().limiter(limiter.clone()).trusted_proxies(TrustedProxies::default());
    for (framework, said) in all_say(overridden, "10.0.0.1", fields).await {
        assert_eq!(said, (200, "10.0.0.1".to_owned()), "{framework}");
    }
}

#[tokio::test]
async fn a_strict_setting_answers_400_where_a_proxy_names_no_client() {
    let layer = || RateLimitLayer::new().trusted_proxies(private().strict(true));
    let unnamed: [&[Field<'_>]; 4] = [
        &[],
        &[("forwarded", b"for=_hidden")],
        &[("x-forwarded-for", b"9.9.9.9, \xe9")],
        &[("x-forwarded-for", b"10.0.0.2")],
    ];
    for fields in unnamed {
        for (framework, (status, body)) in all_say(layer, "10.0.0.1", fields).await {
            assert_eq!(status, 400, "{framework}: {fields:?}");
            assert!(body.contains("address of the client"), "{framework}: {body}");
        }
    }
    for (framework, said) in all_say(layer, "9.9.9.9", &[]).await {
        assert_eq!(said, (200, "9.9.9.9".to_owned()), "{framework}: not behind a proxy");
    }
}

/// The statuses of a layer by [`by_client_ip`] to these requests.
async fn limited(limiter: &RateLimiter, requests: &[(&str, &[Field<'_>])]) -> [Vec<u16>; 4] {
    macro_rules! layer {
        ($rule:expr) => {
            RateLimitLayer::new().limiter(limiter.clone()).rule($rule, by_client_ip)
        };
    }
    let rules = ["axum", "actix", "poem", "tonic"].map(|name| Rule::named(name, Limit::per_minute(1)));
    let mut statuses = [const { Vec::new() }; 4];

    let of_axum = axum::Router::new().route("/", axum::routing::get(async || "hello")).layer(layer!(&rules[0]));
    let of_actix = App::new().route("/", web::get().to(async || "hello")).wrap(layer!(&rules[1]));
    let of_actix = actix_web::test::init_service(of_actix).await;
    let of_poem = Route::new().at("/", poem::get(poem::endpoint::make_sync(|_| "hello"))).with(layer!(&rules[2]));
    let of_tonic = service_fn(async |_: http::Request<tonic::body::Body>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(tonic::body::Body::empty()))
    });
    let of_tonic = tower::Layer::layer(&layer!(&rules[3]), of_tonic);
    for (peer, fields) in requests {
        let mut request = http::Request::builder().uri("/");
        for (name, value) in *fields {
            request = request.header(*name, *value);
        }
        let mut over_http = request.body(axum::body::Body::empty()).unwrap();
        over_http.extensions_mut().insert(ConnectInfo(socket(peer)));
        statuses[0].push(of_axum.clone().oneshot(over_http).await.unwrap().status().as_u16());
        statuses[1].push(actix_app_says!(&of_actix, peer, fields).0);
        let response = Box::pin(poem::Endpoint::get_response(&of_poem, poem_request(peer, fields))).await;
        statuses[2].push(response.status().as_u16());
        let connection = tonic::transport::server::TcpConnectInfo { local_addr: None, remote_addr: Some(socket(peer)) };
        let mut over_tonic = http::Request::new(tonic::body::Body::empty());
        over_tonic.extensions_mut().insert(connection);
        for (name, value) in *fields {
            over_tonic.headers_mut().append(*name, http::HeaderValue::from_bytes(value).unwrap());
        }
        statuses[3].push(of_tonic.clone().oneshot(over_tonic).await.unwrap().status().as_u16());
    }
    statuses
}

/// And its key is made with the proxies of the limiter of the same layer.
#[tokio::test]
async fn by_client_ip_is_the_key_of_a_layer_in_every_framework() {
    let limiter = RateLimiter::builder().trusted_proxies(private()).build().unwrap();
    let requests: &[(&str, &[Field<'_>])] = &[
        ("9.9.9.9", &[("x-forwarded-for", b"1.1.1.1")]),
        ("9.9.9.9", &[("x-forwarded-for", b"1.1.1.2")]),
        ("10.0.0.1", &[("x-forwarded-for", b"\xe9, 9.9.9.9")]),
        ("10.0.0.1", &[("x-forwarded-for", b"8.8.8.8")]),
        ("10.0.0.2", &[("x-forwarded-for", b"8.8.8.8")]),
    ];
    for statuses in limited(&limiter, requests).await {
        assert_eq!(statuses, [200, 429, 429, 200, 429]);
    }
    let strict = RateLimiter::builder().trusted_proxies(private().strict(true)).build().unwrap();
    for statuses in limited(&strict, &[("10.0.0.1", &[]), ("9.9.9.9", &[])]).await {
        assert_eq!(statuses, [400, 200]);
    }
}

/// White space around a value is not part of it (RFC 9110), so it makes no other key; HTTP/2 hands
/// it on.
#[test]
fn white_space_around_a_header_makes_no_other_key() {
    let key = |value: &'static str| {
        let mut headers = http::HeaderMap::new();
        headers.insert("x-api-key", http::HeaderValue::from_static(value));
        HeaderKey::<ApiKey>::of(&headers).map(|api_key| Key::of(&api_key))
    };
    assert_eq!(key(" abc\t"), key("abc"));
    assert!(key("abc").is_ok() && key(" \t ").is_err());
}

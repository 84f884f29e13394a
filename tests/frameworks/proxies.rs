//! The client of a request behind proxies, in each framework.

use std::net::{IpAddr, SocketAddr};

use actix_web::body::BoxBody;
use actix_web::{App, dev, web};
use axum::extract::FromRequestParts as _;
use ratelimit_runtime::{
    ClientIp, HeaderKey, Key, KeyRejection, RateLimitLayer, RateLimiter, TrustedProxies,
};
use tonic::codegen::http;
use tower::{ServiceExt as _, service_fn};

use crate::servers::{Site, ask};
use crate::{ApiKey, PER_IP};

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

/// A method of tonic as its layer hands it the request.
async fn tonic_says(layer: RateLimitLayer, peer: Option<&str>, fields: &[Field<'_>]) -> Said {
    use tonic::codegen::http::{Request, Response};
    use tower::Layer as _;
    let method = service_fn(|request: Request<()>| async move {
        let (parts, ()) = request.into_parts();
        let metadata = tonic::metadata::MetadataMap::from_headers(parts.headers);
        let request = tonic::Request::from_parts(metadata, parts.extensions, ());
        let said: Said = match ClientIp::try_from(&request) {
            Ok(ip) => (200, ip.to_string()),
            Err(status) if status.code() == tonic::Code::InvalidArgument => {
                (400, status.message().to_owned())
            }
            Err(status) => (500, status.message().to_owned()),
        };
        let mut response = Response::new(());
        response.extensions_mut().insert(said);
        Ok::<_, std::convert::Infallible>(response)
    });
    let mut request = Request::builder();
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let mut request = request.body(()).unwrap();
    let connection = tonic::transport::server::TcpConnectInfo {
        local_addr: None,
        remote_addr: peer.map(socket),
    };
    request.extensions_mut().insert(connection);
    layer
        .layer(method)
        .oneshot(request)
        .await
        .unwrap()
        .extensions_mut()
        .remove()
        .unwrap()
}

/// The answer of each framework to a request, which comes from a Unix socket without a peer.
async fn all_say(
    layer: impl Fn() -> RateLimitLayer,
    peer: impl Into<Option<&'static str>>,
    fields: &[Field<'_>],
) -> Vec<(&'static str, Said)> {
    let peer = peer.into();
    let mut all = vec![("tonic", tonic_says(layer(), peer, fields).await)];
    for server in Site::behind(layer()).serve().await {
        let asked = fields
            .iter()
            .fold(ask("/whoami"), |ask, (name, value)| ask.field(name, value));
        let asked = match peer {
            Some(peer) => asked.from(peer),
            None => asked,
        };
        let answer = server.answer(asked).await;
        all.push((server.name, (answer.status, answer.body)));
    }
    all
}

/// Of an app, by itself or as `Data`, and of a scope, which is further in; for handlers, and for
/// middleware of that place.
#[tokio::test]
async fn app_data_of_actix_says_whom_to_trust() {
    use actix_web::middleware::from_fn;
    use actix_web::test::{TestRequest, init_service, read_body, try_call_service};
    let request = || {
        TestRequest::get()
            .peer_addr(socket("10.0.0.1"))
            .append_header(("x-forwarded-for", "9.9.9.9"))
            .to_request()
    };
    macro_rules! assert_trusted {
        ($what:literal, $app:expr) => {
            let said = match try_call_service(&init_service($app).await, request()).await {
                Ok(answer) => String::from_utf8(read_body(answer).await.to_vec()).unwrap(),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, "9.9.9.9", $what);
        };
    }
    let whoami = || web::get().to(async |ip: ClientIp| ip.to_string());
    assert_trusted!(
        "of an app",
        App::new()
            .app_data(web::Data::new(TrustedProxies::default()))
            .app_data(private())
            .route("/", whoami())
    );
    assert_trusted!(
        "as Data",
        App::new()
            .app_data(web::Data::new(private()))
            .route("/", whoami())
    );
    let scope = || web::scope("").app_data(private());
    assert_trusted!(
        "of a scope",
        App::new()
            .app_data(TrustedProxies::default())
            .service(scope().route("/", whoami()))
    );
    assert_trusted!(
        "middleware of an app",
        App::new()
            .app_data(private())
            .wrap(from_fn(client_as_error))
    );
    assert_trusted!(
        "middleware of a scope",
        App::new().service(scope().wrap(from_fn(client_as_error)))
    );
}

/// Middleware that answers with the client's address as an error.
async fn client_as_error(
    request: dev::ServiceRequest,
    _: actix_web::middleware::Next<BoxBody>,
) -> Result<dev::ServiceResponse<BoxBody>, actix_web::Error> {
    Err(actix_web::error::ErrorImATeapot(
        ClientIp::try_from(&request).unwrap().to_string(),
    ))
}

#[tokio::test]
async fn trusted_proxies_of_a_limiter_reach_every_layer_and_layers_override_them() {
    let limiter = RateLimiter::builder()
        .trusted_proxies(private())
        .build()
        .unwrap();
    let fields: &[Field<'_>] = &[("x-forwarded-for", b"9.9.9.9")];
    for (framework, said) in all_say(
        || RateLimitLayer::new().limiter(limiter.clone()),
        "10.0.0.1",
        fields,
    )
    .await
    {
        assert_eq!(said, (200, "9.9.9.9".to_owned()), "{framework}");
    }
    let in_force = limiter
        .scope(all_say(RateLimitLayer::new, "10.0.0.1", fields))
        .await;
    for (framework, said) in in_force {
        assert_eq!(said, (200, "9.9.9.9".to_owned()), "{framework}");
    }
    let headers = fields.iter().map(|(name, value)| {
        (
            http::HeaderName::from_static(name),
            http::HeaderValue::from_bytes(value).unwrap(),
        )
    });
    let by_hand = limiter
        .scope(async { ClientIp::of([10, 0, 0, 1].into(), &headers.collect()) })
        .await;
    assert_eq!(
        by_hand.unwrap().to_string(),
        "9.9.9.9",
        "without a framework"
    );
    let overridden = || {
        RateLimitLayer::new()
            .limiter(limiter.clone())
            .trusted_proxies(TrustedProxies::default())
    };
    for (framework, said) in all_say(overridden, "10.0.0.1", fields).await {
        assert_eq!(said, (200, "10.0.0.1".to_owned()), "{framework}");
    }
}

/// In the key function of the layer and in the service, on tower without a framework.
#[tokio::test]
async fn trusted_proxies_of_a_layer_hold_for_a_client_by_hand() {
    use tower::Layer as _;
    let none = TrustedProxies::default;
    for (of_limiter, of_layer, client) in [
        (none(), private(), "9.9.9.9"),
        (private(), none(), "10.0.0.1"),
    ] {
        let (tell, told) = std::sync::mpsc::channel();
        let key = move |request: &http::Request<()>| {
            let ip = ClientIp::of([10, 0, 0, 1].into(), request.headers()).unwrap();
            tell.send(ip.to_string()).unwrap();
            Key::of(&ip)
        };
        let limiter = RateLimiter::builder().trusted_proxies(of_limiter);
        let layer = RateLimitLayer::new()
            .limiter(limiter.build().unwrap())
            .trusted_proxies(of_layer)
            .rule(&PER_IP, key.clone());
        // A layer further in that has none changes nothing.
        let service = RateLimitLayer::new().layer(service_fn(move |request| {
            let _ = key(&request);
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(())))
        }));
        let request = http::Request::builder().header("x-forwarded-for", "9.9.9.9");
        let asked = layer.layer(service).oneshot(request.body(()).unwrap());
        let _ = asked.await.unwrap();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [client; 2]);
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
            assert!(
                body.contains("address of the client"),
                "{framework}: {body}"
            );
        }
    }
    for (framework, said) in all_say(layer, "9.9.9.9", &[]).await {
        assert_eq!(
            said,
            (200, "9.9.9.9".to_owned()),
            "{framework}: not behind a proxy"
        );
    }
}

#[tokio::test]
async fn a_proxy_that_is_every_peer_names_the_client_also_on_a_unix_socket() {
    let every = || RateLimitLayer::new().trusted_proxies(TrustedProxies::default().any_peer());
    let forwarded: &[Field<'_>] = &[("x-forwarded-for", b"1.1.1.1, 9.9.9.9")];
    for peer in [None, Some("10.0.0.1"), Some("2001:db8::1")] {
        for (framework, said) in all_say(every, peer, forwarded).await {
            assert_eq!(
                said,
                (200, "9.9.9.9".to_owned()),
                "{framework}, from {peer:?}"
            );
        }
    }
    // Without an address there is none to be shared.
    for (framework, (status, _)) in all_say(every, None, &[]).await {
        assert_eq!(status, 400, "{framework}");
    }
    for (framework, said) in all_say(every, "10.0.0.1", &[]).await {
        assert_eq!(said, (200, "10.0.0.1".to_owned()), "{framework}");
    }
    let private = || RateLimitLayer::new().trusted_proxies(private());
    for (framework, (status, _)) in all_say(private, None, forwarded).await {
        assert_eq!(status, 500, "{framework}");
    }
}

/// What a server on this socket says whose request it is.
#[cfg(unix)]
async fn asked_on(path: &std::path::Path) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let request = "GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\
        x-forwarded-for: 1.1.1.1, 9.9.9.9\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_on_a_unix_socket_knows_the_clients_of_its_proxy() {
    let limiter = RateLimiter::builder().trusted_proxies(TrustedProxies::default().any_peer());
    let layer = RateLimitLayer::new().limiter(limiter.build().unwrap());
    let path = |name| std::env::temp_dir().join(format!("{name}-{}.sock", std::process::id()));

    let (of_axum, of_actix) = (path("axum"), path("actix"));
    let whoami = axum::routing::get(async |ip: ClientIp| ip.to_string());
    let app = axum::Router::new().route("/", whoami).layer(layer.clone());
    let listener = tokio::net::UnixListener::bind(&of_axum).unwrap();
    let axum = tokio::spawn(axum::serve(listener, app).into_future());

    let app = move || {
        let whoami = web::get().to(async |ip: ClientIp| ip.to_string());
        App::new().route("/", whoami).wrap(layer.clone())
    };
    let actix = actix_web::HttpServer::new(app).workers(1);
    let actix = tokio::spawn(actix.bind_uds(&of_actix).unwrap().run());

    for path in [of_axum, of_actix] {
        let answer = asked_on(&path).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("9.9.9.9"), "{answer}");
        std::fs::remove_file(path).unwrap();
    }
    axum.abort();
    actix.abort();
}

#[test]
fn an_unknown_peer_is_explained_in_the_words_of_the_framework() {
    let reason = |client: Result<ClientIp, KeyRejection>| client.unwrap_err().to_string();
    let axum = reason(ClientIp::try_from(&http::Request::new(())));
    assert!(
        axum.contains("into_make_service_with_connect_info"),
        "{axum}"
    );
    let actix = actix_web::test::TestRequest::default().to_srv_request();
    for other in [
        reason(ClientIp::try_from(&actix)),
        reason(ClientIp::try_from(&poem::Request::default())),
    ] {
        assert!(!other.contains("axum"), "{other}");
        assert!(
            other.contains("Unix sockets") && other.contains("any_peer"),
            "{other}"
        );
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

/// On one port, either serves the routes of the other.
#[tokio::test]
async fn axum_and_tonic_know_each_others_connections() {
    let peer = socket("192.0.2.1");
    let mut request = tonic::Request::new(());
    request
        .extensions_mut()
        .insert(axum::extract::ConnectInfo(peer));
    let of_tonic = tonic::transport::server::TcpConnectInfo {
        local_addr: None,
        remote_addr: Some(peer),
    };
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.extensions.insert(of_tonic);
    let in_axum = ClientIp::from_request_parts(&mut parts, &()).await;
    let in_tonic = ClientIp::try_from(&request);
    assert_eq!(in_axum.ok(), Some(ClientIp(peer.ip())));
    assert_eq!(in_tonic.ok(), Some(ClientIp(peer.ip())));
}

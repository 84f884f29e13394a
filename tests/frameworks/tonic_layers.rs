//! The layer on a server of tonic: beside layers for browsers, and around one service of several.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use ratelimit_runtime::{Key, Limit, RateLimitLayer, RateLimiter, Rule};
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::NamedService;
use tonic::service::LayerExt as _;
use tonic::transport::server::{Server, TcpIncoming};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_web::GrpcWebLayer;
use tower::{Service, ServiceExt as _, service_fn};
use tower_http::cors::{AllowOrigin, CorsLayer};

static ONE: Rule = Rule::new("one", Limit::per_minute(1));

/// A layer that admits one request.
macro_rules! limits {
    () => {
        RateLimitLayer::new()
            .limiter(RateLimiter::memory())
            .grpc()
            .rule(&ONE, |_: &http::Request<_>| Key::global())
    };
}

async fn echoed(request: Request<String>) -> Result<Response<String>, Status> {
    Ok(Response::new(request.into_inner()))
}

/// Services with one method each, as generated code would have them.
macro_rules! services {
    ($($service:ident: $name:literal;)*) => {$(
        #[derive(Clone)]
        struct $service;

        impl NamedService for $service {
            const NAME: &'static str = $name;
        }

        impl Service<http::Request<Body>> for $service {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future =
                Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<Body>) -> Self::Future {
                Box::pin(async {
                    let codec = ProstCodec::<String, String>::default();
                    let mut method = tonic::server::Grpc::new(codec);
                    Ok(method.unary(service_fn(echoed), request).await)
                })
            }
        }
    )*};
}

services! {
    Words: "tests.Words";
    Letters: "tests.Letters";
    Health: "grpc.health.v1.Health";
}

/// Where a server listens, and a connection to it.
fn listening() -> (TcpIncoming, Channel) {
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = incoming.local_addr().unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    (incoming, endpoint.connect_lazy())
}

/// Calls a method as a script in a browser does: over gRPC-Web, from another origin.
async fn from_a_browser(channel: &Channel) -> http::HeaderMap {
    // No flags, a length of 7: the first field, 5 bytes long.
    let message = b"\0\0\0\0\x07\x0a\x05alice".to_vec();
    let request = http::Request::post("/tests.Words/Echo")
        .header("content-type", "application/grpc-web+proto")
        .header("accept", "application/grpc-web+proto")
        .header("origin", "https://shop.example")
        .body(Body::new(String::from_utf8(message).unwrap()))
        .unwrap();
    let response = channel.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.headers().clone()
}

fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::mirror_request())
        .expose_headers(["grpc-status", "grpc-message"].map(http::HeaderName::from_static))
}

fn text<'a>(headers: &'a http::HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_browser_reads_a_refusal_as_grpc_web() {
    let (incoming, channel) = listening();
    let server = Server::builder()
        .layer(cors())
        .layer(GrpcWebLayer::new())
        .layer(limits!())
        .add_service(Words);
    tokio::spawn(server.serve_with_incoming(incoming));
    let admitted = from_a_browser(&channel).await;
    let refused = from_a_browser(&channel).await;
    for headers in [&admitted, &refused] {
        assert_eq!(
            text(headers, "content-type"),
            Some("application/grpc-web+proto")
        );
        assert_eq!(
            text(headers, "access-control-allow-origin"),
            Some("https://shop.example")
        );
        assert_eq!(
            text(headers, "access-control-expose-headers"),
            Some("grpc-status,grpc-message")
        );
    }
    // The status of a call that was served is in a trailer.
    assert_eq!(text(&admitted, "grpc-status"), None);
    assert_eq!(text(&refused, "grpc-status"), Some("8"));
    assert_eq!(text(&refused, "retry-after"), Some("60"));
}

/// A refusal is a status of gRPC then, which is all in the header of the response too.
#[tokio::test]
async fn limits_may_be_around_grpc_web() {
    let (incoming, channel) = listening();
    let server = Server::builder()
        .layer(cors())
        .layer(limits!())
        .layer(GrpcWebLayer::new())
        .add_service(Words);
    tokio::spawn(server.serve_with_incoming(incoming));
    let admitted = from_a_browser(&channel).await;
    assert_eq!(text(&admitted, "grpc-status"), None);
    let refused = from_a_browser(&channel).await;
    assert_eq!(text(&refused, "grpc-status"), Some("8"));
}

/// The code that a call of the method at this path has.
async fn code(channel: &Channel, path: &'static str) -> Code {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static(path);
    let codec = ProstCodec::<String, String>::default();
    let answer = client.unary(Request::new("alice".to_owned()), path, codec);
    let answer: Result<Response<String>, Status> = answer.await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn one_service_of_several_is_limited() {
    let (incoming, channel) = listening();
    let server = Server::builder()
        .add_service(limits!().named_layer(Words))
        .add_service(Letters);
    tokio::spawn(server.serve_with_incoming(incoming));
    assert_eq!(code(&channel, "/tests.Words/Echo").await, Code::Ok);
    assert_eq!(
        code(&channel, "/tests.Words/Echo").await,
        Code::ResourceExhausted
    );
    assert_eq!(code(&channel, "/tests.Letters/Echo").await, Code::Ok);
    assert_eq!(code(&channel, "/tests.Letters/Echo").await, Code::Ok);
}

#[tokio::test]
async fn health_checks_are_exempt_on_a_server_that_is_limited() {
    let (incoming, channel) = listening();
    let limits = limits!().skip(|request| request.uri().path().starts_with("/grpc.health.v1."));
    let server = Server::builder()
        .layer(limits)
        .add_service(Words)
        .add_service(Health);
    tokio::spawn(server.serve_with_incoming(incoming));
    assert_eq!(code(&channel, "/tests.Words/Echo").await, Code::Ok);
    assert_eq!(
        code(&channel, "/tests.Words/Echo").await,
        Code::ResourceExhausted
    );
    for _ in 0..2 {
        assert_eq!(
            code(&channel, "/grpc.health.v1.Health/Check").await,
            Code::Ok
        );
    }
}

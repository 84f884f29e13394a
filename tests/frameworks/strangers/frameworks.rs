//! The servers: one handler, a layer by address around it, in each framework.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use actix_web::{HttpRequest, HttpResponse, web};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, Response, StatusCode, Version};
use poem::{EndpointExt as _, IntoResponse as _};
use ratelimit_runtime::{
    ClientIp, HeaderKey, Limit, NamedHeader, RateLimitError, RateLimitLayer, RateLimiter, Rule, TrustedProxies,
    by_client_ip, rate_limit,
};
use tonic::transport::server::TcpConnectInfo;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::Framework;
use super::model::{Answer, PER_ADDRESS, PER_KEY};
use super::requests::{Site, Stranger, TRUSTED, Writes};

static ADDRESS: Rule = Rule::new("address", Limit::new(PER_ADDRESS as u64, std::time::Duration::from_secs(10)));

struct ApiKey;

impl NamedHeader for ApiKey {
    const NAME: &'static str = "x-api-key";
}

#[rate_limit(name = "key", key = "<api_key>", window = "10s", max = PER_KEY)]
async fn guarded(api_key: &HeaderKey<ApiKey>) -> Result<(), RateLimitError> {
    Ok(())
}

/// The layer of a site, without a rule.
fn layer(site: &Site) -> RateLimitLayer {
    let proxies = TrustedProxies::new(TRUSTED).unwrap().strict(site.strict);
    let proxies = match site.writes {
        Writes::Both | Writes::XForwardedFor => proxies,
        Writes::Forwarded => proxies.header("forwarded").unwrap(),
        Writes::RealIp => proxies.header("x-real-ip").unwrap(),
    };
    let limiter = RateLimiter::builder();
    if site.of_limiter {
        RateLimitLayer::new().limiter(limiter.trusted_proxies(proxies).build().unwrap())
    } else {
        RateLimitLayer::new().limiter(limiter.build().unwrap()).trusted_proxies(proxies)
    }
}

/// The status that a handler is asked for.
fn wanted(value: Option<&[u8]>) -> StatusCode {
    StatusCode::from_bytes(value.unwrap_or(b"200")).unwrap()
}

fn request<B>(stranger: &Stranger, body: B) -> Request<B> {
    const VERSIONS: [Version; 5] =
        [Version::HTTP_09, Version::HTTP_10, Version::HTTP_11, Version::HTTP_2, Version::HTTP_3];
    let mut request = Request::builder().method(stranger.method).version(VERSIONS[stranger.version]);
    for (name, value) in &stranger.fields {
        request = request.header(*name, value.as_slice());
    }
    request.uri(&stranger.path).body(body).unwrap()
}

fn answer(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Answer {
    let fields = headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    Answer { status: status.as_u16(), fields: fields.collect(), body: body.to_vec() }
}

pub(crate) struct Axum(axum::Router);

impl Framework for Axum {
    const NAME: &'static str = "axum";
    const SEED: u64 = 1;

    async fn serve(site: &Site) -> Self {
        async fn handler(
            ip: ClientIp,
            api_key: HeaderKey<ApiKey>,
            headers: HeaderMap,
            _: Bytes,
        ) -> Result<axum::response::Response, RateLimitError> {
            guarded(&api_key).await?;
            let status = wanted(headers.get("x-want").map(axum::http::HeaderValue::as_bytes));
            Ok(Response::builder()
                .status(status)
                .header("x-client", ip.to_string())
                .body(Body::from("served"))
                .unwrap())
        }
        Self(axum::Router::new().fallback(handler).layer(layer(site).rule(&ADDRESS, by_client_ip)))
    }

    async fn answer(&self, stranger: &Stranger) -> Answer {
        let mut request = request(stranger, Body::from(stranger.body.clone()));
        if let Some(peer) = stranger.peer {
            let _ = request.extensions_mut().insert(ConnectInfo(peer));
        }
        let (parts, body) = self.0.clone().oneshot(request).await.unwrap().into_parts();
        answer(parts.status, &parts.headers, &to_bytes(body, 65_536).await.unwrap())
    }
}

/// An app of actix-web has a type without a name.
type Answering = Pin<Box<dyn Future<Output = Answer>>>;

pub(crate) struct Actix(RefCell<Box<dyn Fn(actix_web::test::TestRequest) -> Answering>>);

impl Framework for Actix {
    const NAME: &'static str = "actix-web";
    const SEED: u64 = 2;

    async fn serve(site: &Site) -> Self {
        async fn handler(
            ip: ClientIp,
            api_key: HeaderKey<ApiKey>,
            request: HttpRequest,
            _: Bytes,
        ) -> Result<HttpResponse, RateLimitError> {
            guarded(&api_key).await?;
            let status = wanted(request.headers().get("x-want").map(actix_web::http::header::HeaderValue::as_bytes));
            let status = actix_web::http::StatusCode::from_u16(status.as_u16()).unwrap();
            Ok(HttpResponse::build(status).insert_header(("x-client", ip.to_string())).body("served"))
        }
        let app =
            actix_web::App::new().default_service(web::to(handler)).wrap(layer(site).rule(&ADDRESS, by_client_ip));
        let app = std::rc::Rc::new(actix_web::test::init_service(app).await);
        Self(RefCell::new(Box::new(move |request| {
            let app = std::rc::Rc::clone(&app);
            Box::pin(async move {
                let response = actix_web::test::call_service(&*app, request.to_request()).await;
                let status = response.status().as_u16();
                let field =
                    |(name, value): (&actix_web::http::header::HeaderName, &actix_web::http::header::HeaderValue)| {
                        (name.as_str().to_owned(), value.as_bytes().to_vec())
                    };
                let fields = response.headers().iter().map(field).collect();
                Answer { status, fields, body: actix_web::test::read_body(response).await.to_vec() }
            })
        })))
    }

    async fn answer(&self, stranger: &Stranger) -> Answer {
        use actix_web::http::{Method, Version};
        const VERSIONS: [Version; 5] =
            [Version::HTTP_09, Version::HTTP_10, Version::HTTP_11, Version::HTTP_2, Version::HTTP_3];
        let mut request = actix_web::test::TestRequest::with_uri(&stranger.path)
            .method(Method::from_bytes(stranger.method.as_bytes()).unwrap())
            .version(VERSIONS[stranger.version])
            .set_payload(stranger.body.clone());
        for (name, value) in &stranger.fields {
            request = request.append_header((*name, value.as_slice()));
        }
        if let Some(peer) = stranger.peer {
            request = request.peer_addr(peer);
        }
        let answering = (self.0.borrow())(request);
        answering.await
    }
}

#[poem::handler]
async fn poem_handler(
    ip: ClientIp,
    api_key: HeaderKey<ApiKey>,
    request: &poem::Request,
    _: Vec<u8>,
) -> Result<poem::Response, RateLimitError> {
    guarded(&api_key).await?;
    let status = wanted(request.headers().get("x-want").map(axum::http::HeaderValue::as_bytes));
    Ok("served".with_status(status).with_header("x-client", ip.to_string()).into_response())
}

pub(crate) struct Poem(poem::endpoint::BoxEndpoint<'static, poem::Response>);

impl Framework for Poem {
    const NAME: &'static str = "poem";
    const SEED: u64 = 3;

    async fn serve(site: &Site) -> Self {
        Self(poem_handler.with(layer(site).rule(&ADDRESS, by_client_ip)).boxed())
    }

    async fn answer(&self, stranger: &Stranger) -> Answer {
        let (parts, ()) = request(stranger, ()).into_parts();
        let peer = stranger.peer.map_or_else(poem::web::RemoteAddr::default, |peer| poem::web::RemoteAddr(peer.into()));
        let parts = (parts, poem::web::LocalAddr::default(), peer, axum::http::uri::Scheme::HTTP);
        let request = poem::Request::from_parts(parts.into(), poem::Body::from(stranger.body.clone()));
        let (parts, body) = poem::Endpoint::get_response(&self.0, request).await.into_parts();
        answer(parts.status, &parts.headers, &body.into_vec().await.unwrap())
    }
}

type GrpcService = BoxCloneSyncService<Request<tonic::body::Body>, Response<tonic::body::Body>, Infallible>;

pub(crate) struct Tonic(GrpcService);

impl Framework for Tonic {
    const NAME: &'static str = "tonic";
    const SEED: u64 = 4;
    const METHODS_ARE_GRPC: bool = true;

    async fn serve(site: &Site) -> Self {
        /// A method, and the head that it gets.
        async fn method(request: &tonic::Request<()>) -> Result<Response<tonic::body::Body>, tonic::Status> {
            let (ip, api_key) = (ClientIp::try_from(request)?, HeaderKey::<ApiKey>::try_from(request)?);
            guarded(&api_key).await?;
            let status = wanted(request.metadata().as_ref().get("x-want").map(axum::http::HeaderValue::as_bytes));
            let response = Response::builder().status(status).header("x-client", ip.to_string());
            Ok(response.body(tonic::body::Body::empty()).unwrap())
        }
        let methods = service_fn(async |request: Request<tonic::body::Body>| {
            let (parts, _) = request.into_parts();
            let metadata = tonic::metadata::MetadataMap::from_headers(parts.headers);
            let request = tonic::Request::from_parts(metadata, parts.extensions, ());
            Ok::<_, Infallible>(method(&request).await.unwrap_or_else(tonic::Status::into_http))
        });
        let limited = layer(site).rule(&ADDRESS, by_client_ip).layer(methods);
        Self(BoxCloneSyncService::new(limited.map_response(|response| response.map(tonic::body::Body::new))))
    }

    async fn answer(&self, stranger: &Stranger) -> Answer {
        let mut request = request(stranger, tonic::body::Body::new(Body::from(stranger.body.clone())));
        if let Some(peer) = stranger.peer {
            let _ = request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr: Some(peer) });
        }
        let (parts, body) = self.0.clone().oneshot(request).await.unwrap().into_parts();
        answer(parts.status, &parts.headers, &to_bytes(Body::new(body), 65_536).await.unwrap())
    }
}

//! tonic: refusals as they reach a client through layers of its own, and through a proxy.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratelimit_runtime::{Key, Limit, RateLimitError, RateLimitLayer, RateLimiter, Rule, rate_limit};
use tokio::time::{Instant, advance, sleep};
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::http;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;
use tower::retry::{Policy, Retry};
use tower::timeout::Timeout;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::tonic_server::{Service, connected, found, service_of};

const WITHIN: Duration = Duration::from_secs(600);

/// A call of a client whose transport gives up after a while.
async fn ask<T>(transport: T, term: String) -> Result<Response<String>, Status>
where
    T: tower::Service<http::Request<Body>, Response = http::Response<Body>> + Clone,
    T::Error: Into<tower::BoxError>,
    Timeout<T>: GrpcService<Body, ResponseBody = Body>,
    <Timeout<T> as GrpcService<Body>>::Error: Into<tower::BoxError>,
{
    let mut client = Grpc::new(Timeout::new(transport, WITHIN));
    client.ready().await.map_err(|_| Status::unknown("not ready"))?;
    let path = http::uri::PathAndQuery::from_static("/tests.Words/Search");
    client.unary(Request::new(term), path, ProstCodec::<String, String>::default()).await
}

/// Tries again what names a time, after that time.
#[derive(Clone, Default)]
struct ByRetryInfo {
    delays: Arc<Mutex<Vec<Duration>>>,
}

impl Policy<String, Response<String>, Status> for ByRetryInfo {
    type Future = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn retry(&mut self, _: &mut String, result: &mut Result<Response<String>, Status>) -> Option<Self::Future> {
        let delay = result.as_ref().err()?.get_details_retry_info()?.retry_delay?;
        self.delays.lock().unwrap().push(delay);
        Some(Box::pin(sleep(delay)))
    }

    fn clone_request(&mut self, term: &String) -> Option<String> {
        Some(term.clone())
    }
}

/// What a client with that policy gets, after how long, and after which delays it tried again.
async fn retried(service: &Service, term: &str) -> (Result<Response<String>, Status>, Duration, Vec<Duration>) {
    let policy = ByRetryInfo::default();
    let service = service.clone();
    let calls = service_fn(move |term| ask(service.clone(), term));
    let begin = Instant::now();
    let answer = Retry::new(policy.clone(), calls).oneshot(term.to_owned()).await;
    let delays = policy.delays.lock().unwrap().clone();
    (answer, begin.elapsed(), delays)
}

fn limited(service: Service) -> Service {
    BoxCloneSyncService::new(RateLimitLayer::new().limiter(RateLimiter::memory()).layer(service))
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_as_long_as_it_is_told_waits_once() {
    let service = limited(BoxCloneSyncService::new(service_of!(found)));
    assert!(ask(service.clone(), "alice".to_owned()).await.is_ok());
    advance(Duration::from_micros(7_654_321)).await;
    assert!(ask(service.clone(), "alice".to_owned()).await.is_ok());
    advance(Duration::from_micros(1_234_567)).await;

    let (answer, took, delays) = retried(&service, "alice").await;
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(delays, [Duration::from_micros(60_000_000 - 7_654_321 - 1_234_567)], "not in whole seconds");
    assert!((delays[0]..delays[0] + Duration::from_millis(2)).contains(&took), "{took:?}");

    let (answer, took, delays) = retried(&service, "alice").await;
    assert!(answer.is_ok() && delays.len() == 1, "the second slot: {delays:?}");
    assert!(took < Duration::from_millis(7_657), "{took:?}");
    let (answer, took, delays) = retried(&service, "bob").await;
    assert!(answer.is_ok() && delays.is_empty() && took.is_zero(), "another key");
}

#[rate_limit(key = "<term>", window = "60s", max = 2, cost = term.len(), name = "heavy")]
async fn heavy(term: &str) -> Result<String, RateLimitError> {
    Ok(term.to_owned())
}

async fn weighed(request: Request<String>) -> Result<Response<String>, Status> {
    Ok(Response::new(heavy(request.get_ref()).await?))
}

#[rate_limit(key = "<term>", concurrent = 1, name = "nested")]
async fn nested(term: &str) -> Result<String, RateLimitError> {
    if term == "outer" {
        return Box::pin(nested("outer")).await;
    }
    Ok(term.to_owned())
}

async fn in_flight(request: Request<String>) -> Result<Response<String>, Status> {
    Ok(Response::new(nested(request.get_ref()).await?))
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_try_again_where_no_time_helps() {
    let (answer, took, delays) = retried(&limited(BoxCloneSyncService::new(service_of!(weighed))), "alice").await;
    assert_eq!((answer.unwrap_err().code(), took, delays), (Code::InvalidArgument, Duration::ZERO, Vec::new()));
    let (answer, took, delays) = retried(&limited(BoxCloneSyncService::new(service_of!(in_flight))), "outer").await;
    assert_eq!((answer.unwrap_err().code(), took, delays), (Code::ResourceExhausted, Duration::ZERO, Vec::new()));
}

/// A proxy that hands requests on, and knows nothing of limits.
fn proxy(backend: Channel) -> Service {
    BoxCloneSyncService::new(service_fn(move |request: http::Request<Body>| {
        let backend = backend.clone();
        async move {
            let answer = backend.oneshot(request).await;
            Ok::<_, Infallible>(answer.unwrap_or_else(|error| Status::from_error(error.into()).into_http()))
        }
    }))
}

/// What a client learns, but for the seconds that go by.
fn learned(status: &Status) -> (Code, String, Vec<String>) {
    let mut details = status.check_error_details().unwrap();
    let delay = details.retry_info().unwrap().retry_delay.unwrap();
    assert!(Duration::from_secs(50) < delay && delay <= Duration::from_secs(60), "{delay:?}");
    let field = |name: &str| status.metadata().get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(field("retry-after"), (delay.as_micros().div_ceil(1_000_000)).to_string());
    details.set_retry_info(None);
    (status.code(), format!("{details:?}"), vec![field("ratelimit-policy"), field("cache-control")])
}

#[tokio::test]
async fn what_a_refusal_says_survives_proxies() {
    let backend = connected(limited(BoxCloneSyncService::new(service_of!(found)))).await;
    let plain = connected(proxy(backend.clone())).await;
    let twice = connected(proxy(plain.clone())).await;
    for _ in 0..2 {
        assert_eq!(ask(twice.clone(), "alice".to_owned()).await.unwrap().get_ref(), "hello alice");
    }
    let direct = learned(&ask(backend, "alice".to_owned()).await.unwrap_err());
    assert!(direct.1.contains(r#"subject: "search", description: "at most 2 in 60s""#), "{direct:?}");
    for transport in [plain, twice] {
        let status = ask(transport, "alice".to_owned()).await.unwrap_err();
        assert_eq!(learned(&status), direct, "{status:?}");
    }
}

static OF_PROXY: Rule = Rule::new("of-proxy", Limit::per_hour(5));

/// A proxy that limits by itself adds what it knows, and leaves what the backend said.
#[tokio::test]
async fn a_proxy_with_limits_of_its_own_leaves_the_details() {
    let backend = connected(limited(BoxCloneSyncService::new(service_of!(found)))).await;
    let layer =
        RateLimitLayer::new().limiter(RateLimiter::memory()).rule(&OF_PROXY, |_: &http::Request<Body>| Key::global());
    let service = layer.layer(proxy(backend)).map_response(|response| response.map(Body::new));
    let proxied = connected(BoxCloneSyncService::new(service)).await;
    for _ in 0..2 {
        assert!(ask(proxied.clone(), "alice".to_owned()).await.is_ok());
    }
    let status = ask(proxied.clone(), "alice".to_owned()).await.unwrap_err();
    let details = status.check_error_details().unwrap();
    assert_eq!(details.quota_failure().unwrap().violations[0].subject, "search", "the backend refuses");
    let policies: Vec<_> =
        status.metadata().get_all("ratelimit-policy").iter().map(|field| field.to_str().unwrap()).collect();
    assert_eq!(policies, [r#""search";q=2;w=60"#, r#""of-proxy";q=5;w=3600"#]);
    assert_eq!(status.metadata().get_all("retry-after").iter().count(), 1);
    for _ in 0..2 {
        assert!(ask(proxied.clone(), "bob".to_owned()).await.is_ok());
    }
    let status = ask(proxied, "carol".to_owned()).await.unwrap_err();
    let details = status.check_error_details().unwrap();
    assert_eq!(details.quota_failure().unwrap().violations[0].subject, "of-proxy");
    assert!(details.retry_info().unwrap().retry_delay.unwrap() > Duration::from_secs(3_000));
}

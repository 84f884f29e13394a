//! tonic: a server and a client of its own, over a socket.

use std::convert::Infallible;
use std::time::Duration;

use ratelimit_runtime::layer::{Grpc, Unlimited};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Algorithm, CalendarUnit, HeaderKey, Key, Limit, MemoryStore, OnUnavailable, RateLimitLayer,
    RateLimiter, Responses, Rule, key, rate_limit,
};
use tonic::body::Body;
use tonic::codegen::http;
use tonic::metadata::MetadataMap;
use tonic::transport::server::{Server, TcpIncoming};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::seen::{Item, parsed, policy, standing};
use crate::{ApiKey, PER_KEY, search};

type Service = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Infallible>;

/// A service whose only method is this, as generated code would have it.
macro_rules! service_of {
    ($method:expr) => {
        service_fn(async |request: http::Request<Body>| {
            let codec = ProstCodec::<String, String>::default();
            Ok::<_, Infallible>(
                tonic::server::Grpc::new(codec)
                    .unary(service_fn($method), request)
                    .await,
            )
        })
    };
}

/// A service behind a layer whose rules are those of its methods.
fn behind<S>(layer: &RateLimitLayer<Unlimited, Grpc>, service: S) -> Service
where
    S: tower::Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    BoxCloneSyncService::new(
        layer
            .layer(service)
            .map_response(|response| response.map(Body::new)),
    )
}

async fn found(request: Request<String>) -> Result<Response<String>, Status> {
    Ok(Response::new(search(request.get_ref()).await?))
}

/// A connection to a server of this service.
pub(crate) async fn connected(service: Service) -> Channel {
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = incoming.local_addr().unwrap();
    tokio::spawn(Server::builder().serve_with_incoming(service, incoming));
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap()
}

struct Client(tonic::client::Grpc<Channel>);

impl Client {
    async fn of(service: Service) -> Self {
        Self(tonic::client::Grpc::new(connected(service).await))
    }

    async fn ask(
        &mut self,
        term: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Response<String>, Status> {
        let mut request = Request::new(term.to_owned());
        for (name, value) in headers {
            request.metadata_mut().append(*name, value.parse().unwrap());
        }
        self.0.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/tests.Words/Search");
        self.0
            .unary(request, path, ProstCodec::<String, String>::default())
            .await
    }
}

fn list(metadata: &MetadataMap, name: &str) -> Vec<Item> {
    parsed(
        metadata
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap()),
    )
}

fn seconds(status: &Status) -> Option<i64> {
    status
        .metadata()
        .get("retry-after")
        .map(|value| value.to_str().unwrap().parse().unwrap())
}

/// What the details say: the rules whose quota refuses, and for how many whole seconds, rounded up.
fn details(status: &Status) -> (Vec<String>, Option<u64>) {
    let details = status.check_error_details().unwrap();
    let violations = details
        .quota_failure()
        .map(|failure| failure.violations.as_slice())
        .unwrap_or_default();
    let delay = details.retry_info().and_then(|info| info.retry_delay);
    let rules = violations
        .iter()
        .map(|violation| violation.subject.clone())
        .collect();
    (
        rules,
        delay.map(|delay| delay.as_secs() + u64::from(delay.subsec_nanos() > 0)),
    )
}

#[tokio::test]
async fn answers_and_statuses_report_decisions() {
    let layer = RateLimitLayer::new().grpc().limiter(RateLimiter::memory());
    let mut client = Client::of(behind(&layer, service_of!(found))).await;
    for left in [1, 0] {
        let answer = client.ask("alice", &[]).await.unwrap();
        assert_eq!(answer.get_ref(), "hello alice");
        assert_eq!(
            list(answer.metadata(), "ratelimit-policy"),
            [policy("search", 2, 60)]
        );
        assert_eq!(
            list(answer.metadata(), "ratelimit")[0].1[0],
            ("r".to_owned(), left)
        );
    }
    let refused = client.ask("alice", &[]).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    let wait = seconds(&refused).unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(
        list(refused.metadata(), "ratelimit-policy"),
        [policy("search", 2, 60)]
    );
    assert_eq!(
        list(refused.metadata(), "ratelimit"),
        [standing("search", 0, wait)]
    );
    assert_eq!(
        details(&refused),
        (vec!["search".to_owned()], u64::try_from(wait).ok())
    );
    let said = refused.get_error_details();
    assert_eq!(
        said.quota_failure().unwrap().violations[0].description,
        "at most 2 in 60s"
    );
    assert!(
        !refused.details().windows(5).any(|bytes| bytes == b"alice"),
        "no key is in it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_names_a_rule_as_the_limiter_does_to_clients_or_not_at_all() {
    let login = Rule::named("shop.login-email", Limit::per_minute(1));
    let nameless = Responses::new().rule_names(|_| None);
    let named = Responses::new().rule_names(|_| Some("login.v2"));
    let unchanged = Responses::new().rule_names(|rule| Some(rule));
    for (responses, names) in [
        (nameless, &[][..]),
        (named, &["login.v2"]),
        (unchanged, &["login-email"]),
    ] {
        let rules: Vec<String> = names.iter().copied().map(String::from).collect();
        let limiter = RateLimiter::builder().responses(responses).build().unwrap();
        let _ = limiter.acquire(&login, &Key::of("alice")).await.unwrap();
        let error = limiter.acquire(&login, &Key::of("alice")).await;
        let error = error.unwrap_err();
        let status = limiter.scope(async { Status::from(error) }).await;
        assert_eq!(details(&status), (rules, Some(60)));
    }
}

static EXPORT: Rule = Rule::in_flight("export", 1);

#[rate_limit(key = "<user>", concurrent = 1, name = "export")]
async fn export(user: &str) -> Result<String, Status> {
    Ok(format!("all of {user}"))
}

/// No client is told when to try again, because the end of a call is not known.
#[tokio::test]
async fn a_status_about_calls_in_flight_says_so_and_names_no_time() {
    async fn exported(request: Request<String>) -> Result<Response<String>, Status> {
        export(request.get_ref()).await.map(Response::new)
    }
    let limiter = RateLimiter::memory();
    let layer = RateLimitLayer::new().grpc().limiter(limiter.clone());
    let mut client = Client::of(behind(&layer, service_of!(exported))).await;
    assert!(client.ask("alice", &[]).await.is_ok());
    let permit = limiter.enter(&EXPORT, &Key::of("alice")).await.unwrap();
    let refused = client.ask("alice", &[]).await.unwrap_err();
    assert_eq!(
        (refused.code(), seconds(&refused)),
        (Code::ResourceExhausted, None),
        "{refused}"
    );
    let policy = refused
        .metadata()
        .get("ratelimit-policy")
        .unwrap()
        .to_str()
        .unwrap();
    assert_eq!(policy, "\"export\";q=1;qu=\"concurrent-requests\"");
    let said = refused.check_error_details().unwrap();
    assert_eq!(
        said.quota_failure().unwrap().violations[0].description,
        "at most 1 at a time"
    );
    assert!(said.retry_info().is_none(), "{said:?}");
    drop(permit);
    assert!(client.ask("alice", &[]).await.is_ok());
}

/// The delay is exact, where header fields count whole seconds. A call that is too heavy is refused
/// at any time.
#[tokio::test(start_paused = true)]
async fn details_name_the_delay_where_waiting_helps() {
    let (limiter, rule) = (
        RateLimiter::memory(),
        Rule::new("shop.upload", Limit::per_minute(1)),
    );
    let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
    tokio::time::advance(Duration::from_micros(7_654_321)).await;
    for (cost, delay) in [
        (1, Some(Duration::from_micros(60_000_000 - 7_654_321))),
        (9, None),
    ] {
        let status = Status::from(
            limiter
                .acquire(&rule.with_cost(cost), &Key::global())
                .await
                .unwrap_err(),
        );
        let said = status.check_error_details().unwrap();
        assert_eq!(details(&status).0, ["upload"], "the last part of a name");
        assert_eq!(
            said.retry_info().and_then(|info| info.retry_delay),
            delay,
            "{said:?}"
        );
    }
}

/// A burst is not what a window admits, and the length of a month not known.
#[tokio::test]
async fn details_state_no_window_that_the_limit_does_not_have() {
    let bucket = Rule::named("upload", Limit::per_hour(1000).with_burst(2));
    let month = Rule::named("export", Limit::calendar(2, CalendarUnit::Month));
    for (rule, description) in [
        (
            bucket.with_algorithm(Algorithm::TokenBucket),
            "at most 2 at once",
        ),
        (
            month.with_algorithm(Algorithm::FixedWindow),
            "at most 2 in a calendar period",
        ),
    ] {
        let (limiter, rule) = (RateLimiter::memory(), rule.with_cost(2));
        let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
        let error = limiter.acquire(&rule, &Key::global()).await.unwrap_err();
        let said = Status::from(error).get_error_details();
        let violations = &said.quota_failure().unwrap().violations;
        assert_eq!(violations[0].description, description);
    }
}

/// A handler that makes its own status says no less.
#[tokio::test]
async fn a_status_without_metadata_gets_them_from_the_layer() {
    async fn terse(request: Request<String>) -> Result<Response<String>, Status> {
        search(request.get_ref())
            .await
            .map(Response::new)
            .map_err(|_| Status::resource_exhausted("no"))
    }
    let layer = RateLimitLayer::new().grpc().limiter(RateLimiter::memory());
    let mut client = Client::of(behind(&layer, service_of!(terse))).await;
    for _ in 0..2 {
        assert!(client.ask("alice", &[]).await.is_ok());
    }
    let refused = client.ask("alice", &[]).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::ResourceExhausted, "no")
    );
    assert!(
        seconds(&refused).is_some_and(|wait| (1..=60).contains(&wait)),
        "{refused:?}"
    );
}

fn per_key(limiter: RateLimiter) -> Service {
    let layer = RateLimitLayer::new().grpc().limiter(limiter).rule(
        &PER_KEY,
        |request: &http::Request<Body>| {
            HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
        },
    );
    let service = layer.layer(service_of!(found));
    BoxCloneSyncService::new(service.map_response(|response| response.map(Body::new)))
}

#[tokio::test]
async fn a_layer_refuses_as_grpc_does() {
    let mut client = Client::of(per_key(RateLimiter::memory())).await;
    for term in ["alice", "bob", "carol"] {
        assert!(client.ask(term, &[("x-api-key", "a")]).await.is_ok());
    }
    let refused = client.ask("dave", &[("x-api-key", "a")]).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    let wait = seconds(&refused).unwrap();
    assert!((1..=10).contains(&wait), "{wait}");
    assert_eq!(
        refused.message(),
        format!("too many requests, try again in {wait}s")
    );
    assert_eq!(
        list(refused.metadata(), "ratelimit-policy"),
        [policy("per-key", 3, 10)]
    );
    assert_eq!(
        list(refused.metadata(), "ratelimit"),
        [standing("per-key", 0, wait)]
    );
    assert_eq!(
        refused.metadata().get("content-type").unwrap(),
        "application/grpc",
        "no JSON"
    );
    assert_eq!(
        details(&refused),
        (vec!["per-key".to_owned()], u64::try_from(wait).ok())
    );

    let missing = client.ask("dave", &[]).await.unwrap_err();
    assert_eq!(
        (missing.code(), missing.message()),
        (Code::InvalidArgument, "the header x-api-key is missing")
    );
}

static OF_PROXY: Rule = Rule::new("of-proxy", Limit::per_hour(5));

/// A proxy that limits by itself adds its own fields, and leaves the details of the backend.
#[tokio::test]
async fn a_layer_around_a_refusal_adds_its_policy_and_leaves_the_details() {
    let backend = RateLimitLayer::new()
        .grpc()
        .limiter(RateLimiter::memory())
        .layer(service_of!(found));
    let proxy = RateLimitLayer::new()
        .grpc()
        .limiter(RateLimiter::memory())
        .rule(&OF_PROXY, |_: &http::Request<Body>| Key::global());
    let service = proxy
        .layer(backend)
        .map_response(|response| response.map(Body::new));
    let mut client = Client::of(BoxCloneSyncService::new(service)).await;
    for term in ["alice", "alice"] {
        assert!(client.ask(term, &[]).await.is_ok());
    }
    let by_backend = client.ask("alice", &[]).await.unwrap_err();
    assert_eq!(details(&by_backend).0, ["search"]);
    let policies = [policy("search", 2, 60), policy("of-proxy", 5, 3600)];
    assert_eq!(list(by_backend.metadata(), "ratelimit-policy"), policies);
    assert_eq!(
        by_backend.metadata().get_all("retry-after").iter().count(),
        1
    );
    for term in ["bob", "bob"] {
        assert!(client.ask(term, &[]).await.is_ok());
    }
    let by_proxy = client.ask("carol", &[]).await.unwrap_err();
    assert_eq!(details(&by_proxy).0, ["of-proxy"]);
}

#[tokio::test]
async fn outages_are_unavailable_under_deny_in_methods_and_layers() {
    let denying = || {
        let store = FaultyStore::new(MemoryStore::new());
        store.fail();
        RateLimiter::builder()
            .store(store)
            .on_unavailable(OnUnavailable::Deny)
            .build()
            .unwrap()
    };
    let of_methods = behind(
        &RateLimitLayer::new().grpc().limiter(denying()),
        service_of!(found),
    );
    for service in [of_methods, per_key(denying())] {
        let status = Client::of(service)
            .await
            .ask("alice", &[("x-api-key", "a")])
            .await
            .unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, "the rate limiter is unavailable")
        );
        assert_eq!(
            (seconds(&status), details(&status)),
            (None, (Vec::new(), None)),
            "it is not about a quota"
        );
    }
}

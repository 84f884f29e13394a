//! axum, and with it tower.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::connect_info::MockConnectInfo;
use axum::extract::{ConnectInfo, Path, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    ClientIp, HeaderKey, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimitLayer, RateLimiter, Responses,
    Rule, TrustedProxies, key, rate_limit,
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{ApiKey, PER_IP, PER_IP_ANSWERS, PER_KEY, Seen, assert_per_key, assert_searches, item, search};

pub(crate) async fn seen(response: Response) -> Seen {
    let (parts, body) = response.into_parts();
    let field = |name: &str| {
        parts.headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let body = to_bytes(body, 65_536).await.unwrap();
    Seen::new(parts.status.as_u16(), field, String::from_utf8(body.to_vec()).unwrap())
}

pub(crate) fn request(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

pub(crate) async fn ask(app: &Router, request: Request) -> Seen {
    seen(app.clone().oneshot(request).await.unwrap()).await
}

fn searches() -> Router {
    Router::new().route("/{user}", get(async |Path(user): Path<String>| search(&user).await))
}

#[tokio::test(start_paused = true)]
async fn responses_tell_of_decisions() {
    let app = searches().layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    let answers =
        [ask(&app, request("/alice")).await, ask(&app, request("/alice")).await, ask(&app, request("/alice")).await];
    assert_searches(&answers);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(ask(&app, request("/alice")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_layer_limits_by_itself() {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory()).rule(&PER_KEY, |request: &Request| {
        HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
    });
    let app = searches().layer(layer);
    let with_key = |path, key: &str| {
        let mut request = request(path);
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        request
    };
    let missing = ask(&app, request("/alice")).await;
    assert_per_key([missing, ask(&app, with_key("/alice", "a")).await, ask(&app, with_key("/bob", "b")).await]);
    for _ in 0..2 {
        let _ = ask(&app, with_key("/carol", "a")).await;
    }
    let refused = ask(&app, with_key("/dave", "a")).await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (429, Some("10")));
    assert_eq!(refused.policies, [item("per-key", &[("q", 3), ("w", 10)])], "the handler was not asked");
    assert_eq!(refused.standings, [item("per-key", &[("r", 0), ("t", 10)])]);
}

static PER_HOUR: Rule = Rule::new("per-hour", Limit::per_hour(100));

#[tokio::test(start_paused = true)]
async fn several_layers_tell_of_all_their_rules() {
    let limiter = RateLimiter::memory();
    let layer = |rule: &'static Rule| RateLimitLayer::new().rule(rule, |_: &Request| key!("all"));
    let app = searches().layer(layer(&PER_KEY)).layer(layer(&PER_HOUR)).layer(RateLimitLayer::new().limiter(limiter));
    let answer = ask(&app, request("/alice")).await;
    let mut names: Vec<_> = answer.policies.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["per-hour", "per-key", "search"]);
    assert_eq!(answer.standings.len(), 3);
}

#[rate_limit(key = "<user>", limits = ["2/10s", "100/1d"], name = "export")]
async fn export(user: &str) -> Result<&'static str, RateLimitError> {
    Ok("exported")
}

#[rate_limit(window = "1s", max = 1, name = "quiet", shadow)]
async fn quiet() -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_rule_of_a_request_is_told_of_and_shadows_are_not() {
    let handler = async || -> Result<&'static str, RateLimitError> {
        search("alice").await?;
        search("bob").await?;
        quiet().await?;
        export("alice").await
    };
    let app = Router::new().route("/", get(handler)).layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    let answer = ask(&app, request("/")).await;
    assert_eq!(
        answer.policies,
        [
            item("search", &[("q", 2), ("w", 60)]),
            item("export", &[("q", 2), ("w", 10)]),
            item("export/2", &[("q", 100), ("w", 86_400)]),
        ]
    );
    assert_eq!(answer.standings, [item("search", &[("r", 1), ("t", 60)]), item("export", &[("r", 1), ("t", 10)])]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_answers_with_a_status_gets_the_fields_too() {
    let handler = async || -> Result<String, StatusCode> { Ok(search("alice").await?) };
    let app = Router::new().route("/", get(handler)).layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    for _ in 0..2 {
        assert_eq!(ask(&app, request("/")).await.status, 200);
    }
    let refused = ask(&app, request("/")).await;
    assert_eq!((refused.status, refused.retry_after.as_deref(), refused.body.as_str()), (429, Some("60"), ""));
    assert_eq!(refused.standings, [item("search", &[("r", 0), ("t", 60)])]);
}

#[rate_limit(window = "60s", max = 1, name = "opaque")]
async fn opaque() -> Result<impl IntoResponse, RateLimitError> {
    Ok("anything")
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_leave_open_what_it_answers() {
    let app = Router::new().route("/", get(opaque)).layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    assert_eq!(ask(&app, request("/")).await.body, "anything");
    assert_eq!(ask(&app, request("/")).await.status, 429);
}

async fn refused(responses: Responses) -> Response {
    let limiter = RateLimiter::builder().responses(responses).build().unwrap();
    let app = searches().layer(RateLimitLayer::new().limiter(limiter));
    for _ in 0..2 {
        let _ = ask(&app, request("/alice")).await;
    }
    app.oneshot(request("/alice")).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn refusals_look_as_the_limiter_says() {
    let problem = refused(Responses::new().problem_json()).await;
    assert_eq!(problem.headers()["content-type"], "application/problem+json");
    let body: Value = serde_json::from_str(&seen(problem).await.body).unwrap();
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Too Many Requests",
        "status": 429,
        "detail": "too many requests, try again in 60s",
        "violated-policies": ["search"],
    });
    assert_eq!(body, expected);

    let own = refused(Responses::new().body(|refusal| ("text/html", format!("<p>{refusal}</p>")))).await;
    assert_eq!(own.headers()["content-type"], "text/html");
    assert_eq!(seen(own).await.body, "<p>too many requests, try again in 60s</p>");

    let plain = refused(Responses::new()).await;
    assert!(!plain.headers().contains_key("x-ratelimit-limit"));
    let legacy = refused(Responses::new().legacy_headers(true)).await;
    for (name, value) in [("limit", "2"), ("remaining", "0"), ("reset", "60")] {
        let values: Vec<_> = legacy.headers().get_all(format!("x-ratelimit-{name}")).iter().collect();
        assert_eq!(values, [value], "{name}");
    }
    assert_eq!(legacy.headers()["cache-control"], "no-store");
}

#[tokio::test(start_paused = true)]
async fn outages_are_503_under_deny_and_mistakes_are_not_told() {
    let store = FaultyStore::new(MemoryStore::new());
    store.fail();
    let limiter = RateLimiter::builder().store(store).on_unavailable(OnUnavailable::Deny).build().unwrap();
    let app = searches().layer(RateLimitLayer::new().limiter(limiter));
    let answer = ask(&app, request("/alice")).await;
    assert_eq!((answer.status, answer.retry_after), (503, None));
    assert!(answer.policies.is_empty() && answer.standings.is_empty());

    let misconfigured = RateLimitError::from(ratelimit_runtime::store::StoreError::misconfigured("wrong password"));
    let answer = seen(misconfigured.into_response()).await;
    assert_eq!(answer.status, 500);
    assert!(!answer.body.contains("password"), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn a_scope_holds_for_the_whole_request() {
    let (ours, theirs) = (RateLimiter::memory(), RateLimiter::memory());
    let app = |limiter: &RateLimiter| searches().layer(RateLimitLayer::new().limiter(limiter.clone()));
    for _ in 0..2 {
        assert_eq!(ask(&app(&ours), request("/alice")).await.status, 200);
    }
    assert_eq!(ask(&app(&ours), request("/alice")).await.status, 429);
    assert_eq!(ask(&app(&theirs), request("/alice")).await.status, 200);
}

#[rate_limit(key = "<ip>", window = "60s", max = 1, name = "by_ip")]
async fn by_ip(ip: ClientIp) -> Result<String, RateLimitError> {
    Ok(ip.to_string())
}

#[tokio::test(start_paused = true)]
async fn clients_are_told_apart_by_their_address_and_cannot_choose_it() {
    let layer = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .trusted_proxies(TrustedProxies::new(["10.0.0.0/8"]).unwrap());
    let app = Router::new().route("/", get(by_ip)).layer(layer);
    let from = |peer: &str, forwarded: &str| {
        let mut request = request("/");
        let peer: SocketAddr = format!("{peer}:4711").parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        if !forwarded.is_empty() {
            request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        }
        request
    };
    assert_eq!(ask(&app, from("9.9.9.9", "1.1.1.1")).await.body, "9.9.9.9");
    assert_eq!(ask(&app, from("9.9.9.9", "1.1.1.2")).await.status, 429, "a header that anybody can send");
    assert_eq!(ask(&app, from("10.0.0.1", "9.9.9.9")).await.status, 429, "the same client through the proxy");
    assert_eq!(ask(&app, from("10.0.0.1", "5.5.5.5, 8.8.8.8")).await.body, "8.8.8.8");
    assert_eq!(ask(&app, from("10.0.0.1", "6.6.6.6, 8.8.8.8")).await.status, 429);

    let unknown = ask(&app, request("/")).await;
    assert_eq!(unknown.status, 500, "nobody said where the request comes from");
}

#[derive(Clone)]
struct User {
    id: u64,
}

#[rate_limit(key = "<user.id>/<api_key>", window = "60s", max = 1, name = "by_user")]
async fn by_user(Extension(user): Extension<User>, api_key: HeaderKey<ApiKey>) -> Result<String, RateLimitError> {
    Ok(format!("{} {}", user.id, api_key.as_bytes().len()))
}

#[tokio::test(start_paused = true)]
async fn extractors_are_parts_of_keys() {
    let app = |id| {
        let layer = RateLimitLayer::new();
        Router::new().route("/", get(by_user)).layer(Extension(User { id })).layer(layer)
    };
    RateLimiter::memory()
        .scope(async {
            let with_keys = |keys: &[&str]| {
                let mut request = request("/");
                for key in keys {
                    request.headers_mut().append("X-Api-Key", key.parse().unwrap());
                }
                request
            };
            assert_eq!(ask(&app(1), with_keys(&["abc"])).await.body, "1 3");
            assert_eq!(ask(&app(1), with_keys(&["abc"])).await.status, 429);
            assert_eq!(ask(&app(2), with_keys(&["abc"])).await.status, 200);
            assert_eq!(ask(&app(1), with_keys(&["abd"])).await.status, 200);
            for (keys, says) in
                [(&[][..], "is missing"), (&[""], "is missing"), (&["a", "b"], "appears more than once")]
            {
                let answer = ask(&app(1), with_keys(keys)).await;
                assert_eq!((answer.status, answer.body, answer.no_store), (400, crate::without_key(says), true));
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_layer_limits_by_address() {
    let layer = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .trusted_proxies(TrustedProxies::new(["10.0.0.0/8"]).unwrap())
        .rule(&PER_IP, |request: &Request| ClientIp::try_from(request).map(|ip| key!("<ip>")));
    let app = Router::new().route("/", get(async || "hello")).layer(layer);
    for (peer, forwarded, status) in PER_IP_ANSWERS {
        let mut request = request("/");
        let peer: SocketAddr = format!("{peer}:4711").parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        assert_eq!(ask(&app, request).await.status, status, "{peer} for {forwarded}");
    }
    assert_eq!(ask(&app, request("/")).await.status, 500, "not one bucket for all whose address is not known");
    let of_a_test = app.layer(MockConnectInfo(SocketAddr::from(([7, 7, 7, 7], 7))));
    assert_eq!(ask(&of_a_test, request("/")).await.status, 200);
}

//! poem.

use poem::web::{LocalAddr, Path, RemoteAddr};
use poem::{Endpoint, EndpointExt as _, IntoResponse, Request, Response, Route, get, handler};
use ratelimit_runtime::{
    ClientIp, HeaderKey, RateLimitError, RateLimitLayer, RateLimiter, TrustedProxies, key, rate_limit,
};

use crate::{ApiKey, PER_IP, PER_IP_ANSWERS, PER_KEY, Seen, assert_per_key, assert_searches, search};

pub(crate) async fn seen(response: Response) -> Seen {
    let (parts, body) = response.into_parts();
    let field = |name: &str| {
        parts.headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    Seen::new(parts.status.as_u16(), field, body.into_string().await.unwrap())
}

pub(crate) async fn ask(app: &impl Endpoint, request: Request) -> Seen {
    seen(Box::pin(app.get_response(request)).await).await
}

pub(crate) fn request(path: &'static str) -> Request {
    Request::builder().uri_str(path).finish()
}

#[handler]
async fn found(Path(user): Path<String>) -> Result<String, RateLimitError> {
    search(&user).await
}

#[tokio::test(start_paused = true)]
async fn responses_tell_of_decisions() {
    let app = Route::new().at("/:user", get(found)).with(RateLimitLayer::new().limiter(RateLimiter::memory()));
    assert_searches(&[
        ask(&app, request("/alice")).await,
        ask(&app, request("/alice")).await,
        ask(&app, request("/alice")).await,
    ]);
}

#[handler]
#[rate_limit(window = "60s", max = 1, name = "opaque")]
async fn opaque() -> Result<impl IntoResponse, RateLimitError> {
    Ok("anything")
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_leave_open_what_it_answers() {
    let app = Route::new().at("/", get(opaque)).with(RateLimitLayer::new().limiter(RateLimiter::memory()));
    assert_eq!(ask(&app, request("/")).await.body, "anything");
    assert_eq!(ask(&app, request("/")).await.status, 429);
}

#[tokio::test(start_paused = true)]
async fn a_layer_limits_by_itself() {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory()).rule(&PER_KEY, |request: &Request| {
        HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
    });
    let app = Route::new().at("/:user", get(found)).with(layer);
    let with_key = |path, key| Request::builder().uri_str(path).header("x-api-key", key).finish();
    let missing = ask(&app, request("/alice")).await;
    assert_per_key([missing, ask(&app, with_key("/alice", "a")).await, ask(&app, with_key("/bob", "b")).await]);
    for _ in 0..2 {
        let _ = ask(&app, with_key("/carol", "a")).await;
    }
    let refused = ask(&app, with_key("/dave", "a")).await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (429, Some("10")));
    assert_eq!(refused.policies.len(), 1, "the handler was not asked");
}

#[handler]
#[rate_limit(key = "<ip>/<api_key>", window = "60s", max = 1, name = "by_ip")]
async fn by_ip(ip: ClientIp, api_key: HeaderKey<ApiKey>) -> Result<String, RateLimitError> {
    Ok(format!("{ip} {}", api_key.as_bytes().len()))
}

fn from(peer: &str, forwarded: &str, keys: &[&str]) -> Request {
    let peer: std::net::SocketAddr = format!("{peer}:4711").parse().unwrap();
    let (parts, ()) = poem::http::Request::new(()).into_parts();
    let parts = (parts, LocalAddr::default(), RemoteAddr(peer.into()), poem::http::uri::Scheme::HTTP);
    let mut request = Request::from_parts(parts.into(), poem::Body::empty());
    request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
    for key in keys {
        request.headers_mut().append("x-api-key", key.parse().unwrap());
    }
    request
}

#[tokio::test(start_paused = true)]
async fn extractors_are_parts_of_keys() {
    let layer = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .trusted_proxies(TrustedProxies::new(["10.0.0.0/8"]).unwrap());
    let app = Route::new().at("/", get(by_ip)).with(layer);
    assert_eq!(ask(&app, from("9.9.9.9", "1.1.1.1", &["abc"])).await.body, "9.9.9.9 3");
    assert_eq!(ask(&app, from("9.9.9.9", "1.1.1.2", &["abc"])).await.status, 429);
    assert_eq!(ask(&app, from("10.0.0.1", "9.9.9.9", &["abc"])).await.status, 429);
    assert_eq!(ask(&app, from("10.0.0.1", "8.8.8.8", &["abc"])).await.body, "8.8.8.8 3");
    let missing = ask(&app, from("9.9.9.9", "1.1.1.1", &[])).await;
    assert_eq!((missing.status, missing.body), (400, crate::without_key("is missing")));
    assert_eq!(ask(&app, from("9.9.9.9", "1.1.1.1", &["a", "b"])).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_layer_limits_by_address() {
    let layer = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .trusted_proxies(TrustedProxies::new(["10.0.0.0/8"]).unwrap())
        .rule(&PER_IP, |request: &Request| ClientIp::try_from(request).map(|ip| key!("<ip>")));
    let app = Route::new().at("/", get(poem::endpoint::make_sync(|_| "hello"))).with(layer);
    for (peer, forwarded, status) in PER_IP_ANSWERS {
        assert_eq!(ask(&app, from(peer, forwarded, &[])).await.status, status, "{peer} for {forwarded}");
    }
    assert_eq!(ask(&app, request("/")).await.status, 500, "not one bucket for all whose address is not known");
}

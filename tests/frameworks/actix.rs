//! actix-web.

use actix_web::body::{MessageBody, to_bytes};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, HttpResponse, Responder, web};
use ratelimit_runtime::{
    ClientIp, HeaderKey, RateLimitError, RateLimitLayer, RateLimiter, TrustedProxies, key, rate_limit,
};

use crate::{ApiKey, PER_IP, PER_IP_ANSWERS, PER_KEY, Seen, assert_per_key, assert_searches, search};

pub(crate) async fn seen<B: MessageBody>(answer: ServiceResponse<B>) -> Seen {
    seen_of(answer.into_parts().1).await
}

pub(crate) async fn seen_of<B: MessageBody>(response: HttpResponse<B>) -> Seen {
    let (head, body) = response.into_parts();
    let field =
        |name: &str| head.headers().get_all(name).map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    let body = to_bytes(body).await.ok().unwrap();
    Seen::new(head.status().as_u16(), field, String::from_utf8(body.to_vec()).unwrap())
}

async fn handler(user: web::Path<String>) -> Result<String, RateLimitError> {
    search(&user).await
}

#[tokio::test(start_paused = true)]
async fn responses_tell_of_decisions() {
    let app =
        App::new().route("/{user}", web::get().to(handler)).wrap(RateLimitLayer::new().limiter(RateLimiter::memory()));
    let app = init_service(app).await;
    let ask = async || seen(call_service(&app, TestRequest::get().uri("/alice").to_request()).await).await;
    assert_searches(&[ask().await, ask().await, ask().await]);
}

/// A handler may return actix's own error as well.
#[tokio::test(start_paused = true)]
async fn errors_of_actix_tell_of_decisions_too() {
    async fn handler(user: web::Path<String>) -> Result<String, actix_web::Error> {
        Ok(search(&user).await?)
    }
    let app =
        App::new().route("/{user}", web::get().to(handler)).wrap(RateLimitLayer::new().limiter(RateLimiter::memory()));
    let app = init_service(app).await;
    let ask = async || seen(call_service(&app, TestRequest::get().uri("/alice").to_request()).await).await;
    assert_searches(&[ask().await, ask().await, ask().await]);
}

#[rate_limit(window = "60s", max = 1, name = "opaque")]
async fn opaque() -> Result<impl Responder, RateLimitError> {
    Ok("anything")
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_leave_open_what_it_answers() {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory());
    let app = init_service(App::new().route("/", web::get().to(opaque)).wrap(layer)).await;
    let ask = async || seen(call_service(&app, TestRequest::get().uri("/").to_request()).await).await;
    assert_eq!(ask().await.body, "anything");
    assert_eq!(ask().await.status, 429);
}

#[tokio::test(start_paused = true)]
async fn a_layer_limits_by_itself() {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory()).rule(&PER_KEY, |request: &ServiceRequest| {
        HeaderKey::<ApiKey>::try_from(request).map(|api_key| key!("<api_key>"))
    });
    let app = init_service(App::new().route("/{user}", web::get().to(handler)).wrap(layer)).await;
    let ask = async |path: &str, key: Option<&'static str>| {
        let mut request = TestRequest::get().uri(path);
        if let Some(key) = key {
            request = request.insert_header(("x-api-key", key));
        }
        seen(call_service(&app, request.to_request()).await).await
    };
    assert_per_key([ask("/alice", None).await, ask("/alice", Some("a")).await, ask("/bob", Some("b")).await]);
    for _ in 0..2 {
        let _ = ask("/carol", Some("a")).await;
    }
    let refused = ask("/dave", Some("a")).await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (429, Some("10")));
    assert_eq!(refused.policies.len(), 1, "the handler was not asked");
}

#[rate_limit(key = "<ip>/<api_key>", window = "60s", max = 1, name = "by_ip")]
async fn by_ip(ip: ClientIp, api_key: HeaderKey<ApiKey>) -> Result<String, RateLimitError> {
    Ok(format!("{ip} {}", api_key.as_bytes().len()))
}

#[tokio::test(start_paused = true)]
async fn extractors_are_parts_of_keys() {
    let layer = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .trusted_proxies(TrustedProxies::new(["10.0.0.0/8"]).unwrap());
    let app = init_service(App::new().route("/", web::get().to(by_ip)).wrap(layer)).await;
    let ask = async |peer: &str, forwarded: &'static str, keys: &[&'static str]| {
        let mut request = TestRequest::get().uri("/").peer_addr(format!("{peer}:4711").parse().unwrap());
        request = request.insert_header(("x-forwarded-for", forwarded));
        for key in keys {
            request = request.append_header(("x-api-key", *key));
        }
        seen(call_service(&app, request.to_request()).await).await
    };
    assert_eq!(ask("9.9.9.9", "1.1.1.1", &["abc"]).await.body, "9.9.9.9 3");
    assert_eq!(ask("9.9.9.9", "1.1.1.2", &["abc"]).await.status, 429);
    assert_eq!(ask("10.0.0.1", "9.9.9.9", &["abc"]).await.status, 429);
    assert_eq!(ask("10.0.0.1", "8.8.8.8", &["abc"]).await.body, "8.8.8.8 3");
    let missing = ask("9.9.9.9", "1.1.1.1", &[]).await;
    assert_eq!((missing.status, missing.body), (400, crate::without_key("is missing")));
    assert_eq!(ask("9.9.9.9", "1.1.1.1", &["a", "b"]).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_layer_limits_by_address() {
    let layer = RateLimitLayer::new()
        .limiter(RateLimiter::memory())
        .trusted_proxies(TrustedProxies::new(["10.0.0.0/8"]).unwrap())
        .rule(&PER_IP, |request: &ServiceRequest| ClientIp::try_from(request).map(|ip| key!("<ip>")));
    let app = init_service(App::new().route("/", web::get().to(async || "hello")).wrap(layer)).await;
    for (peer, forwarded, status) in PER_IP_ANSWERS {
        let request = TestRequest::get().uri("/").peer_addr(format!("{peer}:4711").parse().unwrap());
        let request = request.insert_header(("x-forwarded-for", forwarded)).to_request();
        assert_eq!(seen(call_service(&app, request).await).await.status, status, "{peer} for {forwarded}");
    }
    let nowhere = TestRequest::get().uri("/").to_request();
    assert_eq!(seen(call_service(&app, nowhere).await).await.status, 500, "not one bucket for all");
}

//! Cases that every framework must answer alike.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use ratelimit_runtime::store::StoreError;
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    HeaderKey, Key, KeyRejection, Limit, MemoryStore, OnUnavailable, RateLimitError,
    RateLimitLayer, RateLimiter, Refusal, Responses, Rule, TrustedProxies, key,
};
use serde_json::{Value, json};

use crate::servers::{Handler, KeyOf, Parts, Site, ask, each};
use crate::{ApiKey, PER_IP, PER_KEY, item, policy, search, standing, without_key};

#[allow(
    clippy::unnecessary_wraps,
    reason = "a key function like those beside it"
)]
fn of_all(_: Parts) -> Result<Key, KeyRejection> {
    Ok(key!("all"))
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a key function like those beside it"
)]
fn of_address(parts: Parts) -> Result<Key, KeyRejection> {
    parts.ip.map(|ip| key!("<ip>"))
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a key function like those beside it"
)]
fn of_header(parts: Parts) -> Result<Key, KeyRejection> {
    parts.api_key.map(|api_key| key!("<api_key>"))
}

fn behind_a_proxy(layer: RateLimitLayer) -> RateLimitLayer {
    layer.trusted_proxies(TrustedProxies::new(["10.0.0.0/8"]).unwrap())
}

fn with(responses: &Responses) -> RateLimiter {
    RateLimiter::builder()
        .responses(responses.clone())
        .build()
        .unwrap()
}

fn denying(responses: &Responses) -> RateLimiter {
    let store = FaultyStore::new(MemoryStore::new());
    store.fail();
    let builder = RateLimiter::builder()
        .store(store)
        .on_unavailable(OnUnavailable::Deny);
    builder.responses(responses.clone()).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn responses_report_decisions() {
    for server in each(RateLimiter::memory, Site::behind).await {
        for left in [1, 0] {
            let answer = server.answer(ask("/alice")).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, "hello alice"));
            assert_eq!(answer.policies, [policy("search", 2, 60)]);
            assert_eq!(answer.standings, [standing("search", left, 60)]);
            assert!(answer.retry_after.is_none() && !answer.no_store);
        }
        let refused = server.answer(ask("/alice")).await;
        assert_eq!(
            (refused.status, refused.retry_after.as_deref()),
            (429, Some("60"))
        );
        assert_eq!(refused.policies, [policy("search", 2, 60)]);
        assert_eq!(refused.standings, [standing("search", 0, 60)]);
        let body = r#"{"code":429,"message":"too many requests, try again in 60s","data":null}"#;
        assert_eq!((refused.body.as_str(), refused.no_store), (body, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_holds_for_the_whole_request() {
    let ours = RateLimiter::memory();
    let users = ["/alice", "/bob", "/carol"];
    for (server, user) in each(|| ours.clone(), Site::behind).await.iter().zip(users) {
        for status in [200, 200, 429] {
            assert_eq!(server.answer(ask(user)).await.status, status);
        }
    }
    for (server, user) in each(RateLimiter::memory, Site::behind)
        .await
        .iter()
        .zip(users)
    {
        assert_eq!(
            server.answer(ask(user)).await.status,
            200,
            "another limiter"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_limits_by_itself() {
    for server in each(RateLimiter::memory, |layer| {
        Site::limited(layer, &PER_KEY, of_header)
    })
    .await
    {
        let missing = server.answer(ask("/alice")).await;
        assert_eq!(
            (missing.status, missing.body),
            (400, without_key("is missing"))
        );
        assert!(missing.policies.is_empty() && missing.standings.is_empty() && missing.no_store);
        for (path, api_key, body) in [("/alice", "a", "hello alice"), ("/bob", "b", "hello bob")] {
            let answer = server.answer(ask(path).with_key(api_key)).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, body));
            let policies = [policy("per-key", 3, 10), policy("search", 2, 60)];
            assert_eq!(answer.policies, policies);
            let standings = [standing("per-key", 2, 10), standing("search", 1, 60)];
            assert_eq!(answer.standings, standings);
        }
        for _ in 0..2 {
            let _ = server.answer(ask("/carol").with_key("a")).await;
        }
        let refused = server.answer(ask("/dave").with_key("a")).await;
        assert_eq!(
            (refused.status, refused.retry_after.as_deref()),
            (429, Some("10"))
        );
        assert_eq!(
            refused.policies,
            [policy("per-key", 3, 10)],
            "the handler was not asked"
        );
        assert_eq!(refused.standings, [standing("per-key", 0, 10)]);
    }
}

/// The layer makes no key for them; limits further in hold.
#[tokio::test(start_paused = true)]
async fn a_layer_skips_requests_that_are_exempt() {
    for server in each(RateLimiter::memory, |layer| Site {
        is_exempt: |path| path == "/health",
        ..Site::limited(layer, &PER_KEY, of_header)
    })
    .await
    {
        for status in [200, 200, 429] {
            let answer = server.answer(ask("/health")).await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.policies, [policy("search", 2, 60)]);
        }
        let missing = server.answer(ask("/healthy")).await;
        assert_eq!(missing.status, 400);
    }
}

/// The statuses of requests from these peers, with these forwarded addresses, where `10.0.0.0/8` is
/// trusted.
const BY_ADDRESS: [(&str, &str, u16); 5] = [
    ("9.9.9.9", "1.1.1.1", 200),
    // A header that any client can send gives no other budget.
    ("9.9.9.9", "1.1.1.2", 429),
    ("10.0.0.1", "9.9.9.9", 429),
    ("10.0.0.1", "8.8.8.8", 200),
    ("10.0.0.1", "1.1.1.3, 8.8.8.8", 429),
];

#[tokio::test(start_paused = true)]
async fn a_layer_limits_by_address() {
    let site = |layer| Site::limited(behind_a_proxy(layer), &PER_IP, of_address);
    for server in each(RateLimiter::memory, site).await {
        for (peer, forwarded, status) in BY_ADDRESS {
            let answer = server
                .answer(ask("/alice").from(peer).field("x-forwarded-for", forwarded))
                .await;
            // The handler itself admits two.
            assert_eq!(answer.status, status, "{peer} for {forwarded}");
        }
        let nowhere = server.answer(ask("/alice")).await;
        assert_eq!(
            nowhere.status, 500,
            "not one bucket for all whose address is not known"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn extractors_are_parts_of_keys() {
    for server in each(RateLimiter::memory, |layer| {
        Site::behind(behind_a_proxy(layer))
    })
    .await
    {
        for (peer, forwarded, status) in BY_ADDRESS {
            let ask = ask("/by-ip")
                .from(peer)
                .field("x-forwarded-for", forwarded)
                .with_key("abc");
            let answer = server.answer(ask).await;
            assert_eq!(answer.status, status, "{peer} for {forwarded}");
            if status == 200 {
                let client = if peer == "10.0.0.1" { forwarded } else { peer };
                assert_eq!(answer.body, format!("{client} 3"));
            }
        }
        let from = ask("/by-ip").from("9.9.9.9");
        assert_eq!(
            server.answer(from.clone().with_key("abd")).await.status,
            200,
            "another key"
        );
        let several = from.clone().with_key("a").with_key("b");
        for (ask, says) in [
            (from.clone(), "is missing"),
            (from.with_key(""), "is missing"),
            (several, "appears more than once"),
        ] {
            let answer = server.answer(ask).await;
            let expected = (400, without_key(says), true);
            assert_eq!((answer.status, answer.body, answer.no_store), expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_return_an_opaque_type() {
    for server in each(RateLimiter::memory, Site::behind).await {
        assert_eq!(server.answer(ask("/opaque")).await.body, "anything");
        assert_eq!(server.answer(ask("/opaque")).await.status, 429);
    }
}

/// Answers of a layer in place of a handler: the default status, a limiter, a rule and its key. The
/// second call is refused.
fn in_place(responses: &Responses) -> [(u16, RateLimiter, Rule, KeyOf); 4] {
    let one = Rule::named("one", Limit::per_minute(1));
    [
        (429, with(responses), one.clone(), of_all),
        (413, with(responses), one.with_cost(2), of_all),
        (503, denying(responses), one.clone(), of_all),
        (500, with(responses), one, of_address),
    ]
}

#[tokio::test(start_paused = true)]
async fn answers_in_place_of_a_handler_are_not_to_be_stored_and_have_the_body_that_the_limiter_says()
 {
    let plain =
        Responses::new().body(|refusal| ("text/plain", format!("{}: {refusal}", refusal.status())));
    let says = |status| match status {
        429 => "429: too many requests, try again in 60s",
        413 => "413: a request of cost 2 is above the limit of 1",
        503 => "503: the rate limiter is unavailable",
        _ => "500: internal error",
    };
    for (status, limiter, rule, key) in in_place(&plain) {
        for server in Site::limited(RateLimitLayer::new().limiter(limiter), &rule, key)
            .serve()
            .await
        {
            let _ = server.answer(ask("/alice")).await;
            let answer = server.answer(ask("/bob")).await;
            assert_eq!((answer.status, answer.no_store), (status, true));
            assert_eq!(answer.body, says(status));
            let is_told = answer.retry_after.is_some();
            assert_eq!(
                is_told,
                status == 429,
                "{status} does not say when to try again"
            );
        }
    }
    let of_key = |layer| Site::limited(layer, &PER_KEY, of_header);
    for server in each(|| with(&plain), of_key).await {
        assert_eq!(
            server.answer(ask("/alice")).await.body,
            "400: the header x-api-key is missing"
        );
    }
    let problem = json!({
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "the header x-api-key appears more than once",
    });
    for server in each(|| with(&Responses::new().problem_json()), of_key).await {
        let answer = server
            .answer(ask("/alice").with_key("a").with_key("b"))
            .await;
        assert_eq!(
            serde_json::from_str::<Value>(&answer.body).unwrap(),
            problem
        );
    }
}

/// The path and the request id of the request that is answered.
fn body(refusal: &Refusal<'_>) -> (&'static str, String) {
    let says = refusal.request().map(|request| {
        let ids: Vec<_> = request.headers.get_all("x-request-id").iter().collect();
        let (method, uri, version) = (&request.method, &request.uri, request.version);
        format!("{method} {uri} {version:?} {ids:?}")
    });
    ("text/plain", says.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_body_of_a_refusal_may_depend_on_the_request() {
    let limiter = || with(&Responses::new().body(body));
    let one = Rule::named("one", Limit::per_minute(1));
    let refused = |path| {
        ask(path)
            .field("x-request-id", "7")
            .field("x-request-id", "8")
    };
    // By the layer, by the handler, and in want of a key.
    for (rule, key, path, api_key) in [
        (&one, of_all as KeyOf, "/alice?page=2", Some("a")),
        (&PER_KEY, of_header as KeyOf, "/opaque", Some("a")),
        (&PER_KEY, of_header as KeyOf, "/alice", None),
        (&PER_KEY, of_header as KeyOf, "/by-ip", Some("a")),
    ] {
        for server in each(limiter, |layer| Site::limited(layer, rule, key)).await {
            let ask = api_key.map_or(refused(path), |api_key| refused(path).with_key(api_key));
            let _ = server.answer(ask.clone()).await;
            let answer = server.answer(ask).await;
            assert!(answer.status >= 400, "{answer:?}");
            let says = format!("GET {path} HTTP/1.1 [\"7\", \"8\"]");
            assert_eq!(answer.body, says);
        }
    }
}

/// A limiter of the handler's own answers within the layer of another one.
#[tokio::test(start_paused = true)]
async fn the_request_is_that_of_the_innermost_layer_that_copies_it() {
    let wide = Rule::named("wide", Limit::per_minute(600));
    let (plain, custom) = (RateLimiter::memory(), with(&Responses::new().body(body)));
    for (inner, outer, is_seen) in [
        (&plain, &custom, true),
        (&custom, &plain, true),
        (&plain, &plain, false),
    ] {
        let own = custom.clone();
        let handler: Handler = Arc::new(move |_| {
            let own = own.clone();
            Box::pin(async move {
                let error = RateLimitError::from(StoreError::unavailable("away"));
                let body = own.scope(async { error.to_http_response() }).await;
                Ok(body.into_body())
            })
        });
        let layers = [inner, outer].map(|limiter| {
            let layer = RateLimitLayer::new().limiter(limiter.clone());
            (layer, wide.clone(), of_all as KeyOf)
        });
        let site = Site {
            handler,
            rules: layers.into(),
            ..Site::open()
        };
        for server in site.serve().await {
            let body = server.answer(ask("/alice")).await.body;
            let seen = if is_seen {
                "GET /alice HTTP/1.1 []"
            } else {
                ""
            };
            assert_eq!(body, seen);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_key_is_401_where_it_is_a_credential() {
    let responses = Responses::new().unauthorized("ApiKey realm=\"orders\"");
    for server in each(
        || with(&responses),
        |layer| Site::limited(layer, &PER_KEY, of_header),
    )
    .await
    {
        let one = ask("/alice").with_key("a");
        for (ask, status) in [
            (ask("/alice"), 401),
            (one.clone(), 200),
            (one.with_key("b"), 400),
        ] {
            let answer = server.answer(ask).await;
            assert_eq!((answer.status, answer.no_store), (status, status != 200));
        }
    }
    let (limiter, missing) = (
        with(&responses),
        HeaderKey::<ApiKey>::of(&HeaderMap::new()).unwrap_err(),
    );
    let response = limiter.scope(async { missing.to_http_response() }).await;
    assert_eq!(
        response.headers()["www-authenticate"],
        "ApiKey realm=\"orders\""
    );
    let status = limiter.scope(async { tonic::Status::from(missing) }).await;
    assert_eq!(status.code(), tonic::Code::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_0_is_429_without_retry_after() {
    let suspended = Rule::named("suspended", Limit::per_minute(0));
    let layer = || RateLimitLayer::new().limiter(RateLimiter::memory());
    for server in Site::limited(layer(), &suspended, of_all).serve().await {
        let answer = server.answer(ask("/alice")).await;
        assert_eq!((answer.status, answer.retry_after), (429, None));
        let policy = policy("suspended", 0, 60);
        assert_eq!(answer.policies, [policy]);
        assert_eq!(answer.standings, [item("suspended", &[("r", 0)])]);
        assert!(answer.no_store);
    }
    let refused = RateLimiter::memory()
        .acquire(&suspended, &key!("all"))
        .await;
    let status = tonic::Status::from(refused.unwrap_err());
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert!(status.metadata().get("retry-after").is_none());
    let details = tonic_types::StatusExt::get_error_details(&status);
    assert!(details.retry_info().is_none(), "{details:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cost_above_the_limit_has_the_status_that_the_limiter_says() {
    // A status without a name of its own.
    let limiter = with(&Responses::new().problem_json().cost_exceeds_limit(499));
    let heavy = Rule::named("heavy", Limit::per_minute(1)).with_cost(2);
    for server in Site::limited(
        RateLimitLayer::new().limiter(limiter.clone()),
        &heavy,
        of_all,
    )
    .serve()
    .await
    {
        let answer = server.answer(ask("/alice")).await;
        assert_eq!((answer.status, answer.retry_after), (499, None));
        assert!(
            answer.body.contains("\"title\":\"Refused\""),
            "{}",
            answer.body
        );
    }
    let error = limiter.acquire(&heavy, &key!("all")).await.unwrap_err();
    assert_eq!(
        limiter
            .scope(async { StatusCode::from(error.clone()) })
            .await,
        499
    );
    let (status, _) = RateLimiter::memory()
        .scope(async { <(StatusCode, String)>::from(error.clone()) })
        .await;
    assert_eq!(status, 413);
    assert_eq!(
        tonic::Status::from(error).code(),
        tonic::Code::InvalidArgument,
        "an exhausted client would try again"
    );
    // Which algorithm would admit it is no matter of clients.
    let wide = Rule::named("wide", Limit::per_minute(9_000)).with_cost(2_000);
    let error = limiter.acquire(&wide, &key!("all")).await.unwrap_err();
    assert!(error.to_string().contains("`token_bucket`"), "{error}");
    let body = error.to_http_response().into_body();
    assert!(
        body.contains("\"a request of cost 2000 is above the limit of 1000\""),
        "{body}"
    );
}

#[test]
fn a_setting_that_no_refusal_can_have_is_an_error_that_names_it() {
    let built = |responses| {
        RateLimiter::builder()
            .responses(responses)
            .build()
            .map(drop)
            .map_err(|error| error.to_string())
    };
    for status in [0, 200, 302, 399, 600, 999, u16::MAX] {
        let error = built(Responses::new().cost_exceeds_limit(status)).unwrap_err();
        assert!(
            error.contains("cost_exceeds_limit") && error.contains("413"),
            "{error}"
        );
    }
    for challenge in ["", " ", "a\nb"] {
        let error = built(Responses::new().unauthorized(challenge)).unwrap_err();
        assert!(
            error.contains("unauthorized") && error.contains("Bearer"),
            "{error}"
        );
    }
    assert_eq!(
        built(
            Responses::new()
                .unauthorized("Bearer")
                .cost_exceeds_limit(403)
        ),
        Ok(())
    );
}

/// Two layers with a rule each, the inner one first.
fn of_two(layer: &RateLimitLayer, rules: [&Rule; 2]) -> Site {
    Site {
        handler: Arc::new(|user| Box::pin(async { Ok(user) })),
        rules: rules
            .map(|rule| (layer.clone(), rule.clone(), of_all as KeyOf))
            .into(),
        ..Site::open()
    }
}

/// Older clients read of one limit: the next one that refuses.
#[tokio::test(start_paused = true)]
async fn of_several_layers_legacy_headers_report_the_one_that_leaves_least() {
    let few = Rule::named("few", Limit::per_minute(2));
    let many = Rule::named("many", Limit::per_hour(100));
    let limiter = || with(&Responses::new().legacy_headers(true));
    for rules in [[&few, &many], [&many, &few]] {
        for server in each(limiter, |layer| of_two(&layer, rules)).await {
            for (status, left) in [(200, "1"), (200, "0"), (429, "0")] {
                let answer = server.answer(ask("/alice")).await;
                assert_eq!(answer.status, status);
                assert_eq!(answer.legacy, ["2", left, "60"]);
            }
        }
    }
}

/// The layer around the refusal has less left under the same name.
#[tokio::test(start_paused = true)]
async fn what_refuses_is_told_in_place_of_a_rule_of_its_name_that_admits() {
    let heavy = Rule::named("mails.send", Limit::new(5, Duration::from_secs(10))).with_cost(3);
    let light = Rule::named("letters.send", Limit::per_minute(3));
    let limiter = || with(&Responses::new().legacy_headers(true));
    for server in each(limiter, |layer| of_two(&layer, [&heavy, &light])).await {
        let _ = server.answer(ask("/alice")).await;
        let refused = server.answer(ask("/alice")).await;
        assert_eq!(refused.policies, [policy("send", 5, 10)]);
        assert_eq!(refused.standings, [standing("send", 2, 10)]);
        assert_eq!(refused.legacy, ["5", "2", "10"]);
    }
}

/// A login, whose limits tell an attacker how many guesses are left.
#[tokio::test(start_paused = true)]
async fn a_rule_without_a_name_for_clients_is_in_no_field_and_is_waited_for_all_the_same() {
    let login = Rule::named("login-email", Limit::per_minute(2));
    let orders = Rule::named("orders-v2", Limit::per_hour(100));
    let responses = Responses::new()
        .legacy_headers(true)
        .problem_json()
        .rule_names(|rule| match rule {
            "login-email" => None,
            "orders-v2" => Some("api.orders"),
            rule => Some(rule),
        });
    for rules in [[&login, &orders], [&orders, &login]] {
        for server in each(|| with(&responses), |layer| of_two(&layer, rules)).await {
            for left in [99, 98] {
                let answer = server.answer(ask("/alice")).await;
                let orders = policy("api.orders", 100, 3600);
                assert_eq!(answer.policies, [orders]);
                let orders = standing("api.orders", left, 3600);
                assert_eq!(answer.standings, [orders]);
                let left = left.to_string();
                assert_eq!(answer.legacy, ["100", &left, "3600"]);
            }
            let refused = server.answer(ask("/alice")).await;
            assert_eq!(
                (refused.status, refused.retry_after.as_deref()),
                (429, Some("60"))
            );
            let told = format!("{refused:?}");
            assert!(!told.contains("login"), "{told}");
            assert!(!told.contains("violated-policies"), "{told}");
            // Those of `orders` would say that 97 calls are left.
            assert_eq!(refused.legacy, [""; 0]);
        }
    }
}

/// In a task of its own a check is not collected, and its refusal is the handler's all the same.
async fn elsewhere(limiter: RateLimiter) -> Result<String, RateLimitError> {
    tokio::spawn(async move { limiter.scope(search("alice")).await })
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_was_not_collected_keeps_its_fields() {
    let wide = Rule::named("wide", Limit::per_minute(600));
    let limiter = RateLimiter::memory();
    for _ in 0..2 {
        limiter.scope(search("alice")).await.unwrap();
    }
    let layer = RateLimitLayer::new().limiter(limiter.clone());
    let handler = Arc::new(move |_| Box::pin(elsewhere(limiter.clone())) as _);
    let site = Site {
        handler,
        ..Site::limited(layer, &wide, of_all)
    };
    for (asked, server) in site.serve().await.iter().enumerate() {
        let mut answer = server.answer(ask("/alice")).await;
        assert_eq!(
            (answer.status, answer.retry_after.as_deref()),
            (429, Some("60"))
        );
        answer.policies.sort();
        let policies = [policy("search", 2, 60), policy("wide", 600, 60)];
        assert_eq!(answer.policies, policies);
        answer.standings.sort();
        let left = 599 - i64::try_from(asked).unwrap();
        let standings = [standing("search", 0, 60), standing("wide", left, 60)];
        assert_eq!(answer.standings, standings);
    }
}

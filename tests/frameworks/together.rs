//! Several rules of one layer: a request is charged for all of them, or for none.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use ratelimit_runtime::{
    HeaderKey, Key, KeyRejection, Limit, RateLimitError, RateLimitLayer, RateLimiter, Responses,
    Rule, key,
};
use tonic::Code;
use tonic::body::Body;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::axum_server::{self, request};
use crate::servers::{KeyOf, Parts, Site, ask};
use crate::{ApiKey, policy, standing, without_key};

static PER_USER: Rule = Rule::new("user", Limit::per_minute(2));
static OF_ALL: Rule = Rule::new("all", Limit::per_hour(3));

#[allow(
    clippy::needless_pass_by_value,
    reason = "a key function like those beside it"
)]
fn of_user(parts: Parts) -> Result<Key, KeyRejection> {
    parts.api_key.map(|api_key| key!("<api_key>"))
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "a key function like those beside it"
)]
fn of_all(_: Parts) -> Result<Key, KeyRejection> {
    Ok(Key::global())
}

fn site(limiter: &RateLimiter, first: (&Rule, KeyOf), second: (&Rule, KeyOf)) -> Site {
    let layer = RateLimitLayer::new().limiter(limiter.clone());
    Site {
        handler: Arc::new(|user| Box::pin(async { Ok(user) })),
        together: vec![(second.0.clone(), second.1)],
        ..Site::limited(layer, first.0, first.1)
    }
}

/// How much of both rules is left: of Alice's, and of all.
async fn left(limiter: &RateLimiter) -> [u64; 2] {
    let alice = Key::of(&"alice".as_bytes());
    let of_alice = limiter.peek(&PER_USER, &alice).await.unwrap();
    let of_all = limiter.peek(&OF_ALL, &Key::global()).await.unwrap();
    [of_alice.remaining(), of_all.remaining()]
}

#[tokio::test(start_paused = true)]
async fn a_request_is_charged_for_all_rules_of_a_layer_or_for_none() {
    let responses = Responses::new().legacy_headers(true);
    for at in 0..3 {
        let builder = RateLimiter::builder().responses(responses.clone());
        let limiter = builder.build().unwrap();
        let site = site(&limiter, (&PER_USER, of_user), (&OF_ALL, of_all));
        let server = &site.serve().await[at];
        let name = server.name;
        let alice = ask("/alice").with_key("alice");

        // `Seen` holds that each field is one line.
        let policies = [policy("user", 2, 60), policy("all", 3, 3600)];
        for [of_alice, of_all] in [[1, 2], [0, 1]] {
            let answer = server.answer(alice.clone()).await;
            assert_eq!(answer.status, 200, "{name}");
            assert_eq!(answer.policies, policies, "{name}");
            let standings = [
                standing("user", of_alice, 60),
                standing("all", of_all, 3600),
            ];
            assert_eq!(answer.standings, standings, "{name}");
        }
        let refused = server.answer(alice.clone()).await;
        assert_eq!(
            (refused.status, refused.retry_after.as_deref()),
            (429, Some("60")),
            "{name}"
        );
        // Of a stack that is refused there is one decision.
        assert_eq!(refused.policies, policies[..1], "{name}");
        assert_eq!(refused.standings, [standing("user", 0, 60)], "{name}");
        assert_eq!(refused.legacy, ["2", "0", "60"], "{name}");
        assert_eq!(left(&limiter).await, [0, 1], "{name}: the other is charged");

        let bob = ask("/bob").with_key("bob");
        assert_eq!(server.answer(bob.clone()).await.status, 200, "{name}");
        // Both refuse Alice, and the day takes longer; only the day refuses Bob.
        for ask in [alice, bob] {
            let refused = server.answer(ask).await;
            assert_eq!(
                (refused.status, refused.retry_after.as_deref()),
                (429, Some("3600")),
                "{name}"
            );
            assert_eq!(refused.legacy, ["3", "0", "3600"], "{name}");
        }
    }
}

/// Whichever of them has no key: keys are made before anything is charged.
#[tokio::test(start_paused = true)]
async fn a_request_without_one_of_the_keys_is_charged_for_no_rule() {
    let (user, all) = ((&PER_USER, of_user as KeyOf), (&OF_ALL, of_all as KeyOf));
    for (first, second) in [(user, all), (all, user)] {
        let limiter = RateLimiter::memory();
        for server in site(&limiter, first, second).serve().await {
            let answer = server.answer(ask("/alice")).await;
            assert_eq!(
                (answer.status, answer.body, answer.no_store),
                (400, without_key("is missing"), true)
            );
            assert_eq!(left(&limiter).await, [2, 3]);
        }
    }
}

/// Wherever `skip` stands among the rules.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_exempt_is_charged_by_no_rule_of_its_layer() {
    let is_exempt = |request: &Request| request.uri().path() == "/health";
    let by_key = |request: &Request| {
        HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
    };
    let by_all = |_: &Request| Key::global();
    let limiter = RateLimiter::memory();
    let layer = || RateLimitLayer::new().limiter(limiter.clone());
    let layers = [
        layer()
            .rule(&PER_USER, by_key)
            .skip(is_exempt)
            .rule(&OF_ALL, by_all),
        layer()
            .rule(&PER_USER, by_key)
            .rule(&OF_ALL, by_all)
            .skip(is_exempt),
    ];
    for layer in layers {
        let app = Router::new().fallback(get(async || "well")).layer(layer);
        for (path, status) in [("/health", 200), ("/", 400)] {
            let answer = axum_server::ask(&app, request(path)).await;
            assert_eq!((answer.status, answer.policies), (status, vec![]), "{path}");
        }
        assert_eq!(left(&limiter).await, [2, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_of_a_layer_that_limits_calls_in_flight_is_a_mistake_that_charges_nothing() {
    let limiter = RateLimiter::memory();
    let in_flight = Rule::in_flight("open", 1);
    for server in site(&limiter, (&OF_ALL, of_all), (&in_flight, of_all))
        .serve()
        .await
    {
        let answer = server.answer(ask("/alice")).await;
        assert_eq!(answer.status, 500);
        assert_eq!(left(&limiter).await, [2, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_grpc_is_charged_for_all_rules_of_a_layer_or_for_none() {
    type Asked = axum::http::Request<Body>;
    let limiter = RateLimiter::memory();
    let by_key = |request: &Asked| {
        HeaderKey::<ApiKey>::of(request.headers()).map(|api_key| key!("<api_key>"))
    };
    let layer = RateLimitLayer::new()
        .limiter(limiter.clone())
        .grpc()
        .rule(&PER_USER, by_key)
        .rule(&OF_ALL, |_: &Asked| Key::global());
    let served = service_fn(async |_: Asked| {
        Ok::<_, RateLimitError>(axum::http::Response::new(Body::empty()))
    });
    let service = layer.layer(served);
    let of_alice = || {
        let request = axum::http::Request::builder().header("x-api-key", "alice");
        request.body(Body::empty()).unwrap()
    };
    let field = |headers: &axum::http::HeaderMap, name: &str| {
        let value = headers.get(name).map(|value| value.to_str().unwrap());
        value.map(str::to_owned)
    };
    for standings in [
        r#""user";r=1;t=60, "all";r=2;t=3600"#,
        r#""user";r=0;t=60, "all";r=1;t=3600"#,
    ] {
        let answer = service.clone().oneshot(of_alice()).await.unwrap();
        assert_eq!(field(answer.headers(), "grpc-status"), None);
        assert_eq!(
            field(answer.headers(), "ratelimit").as_deref(),
            Some(standings)
        );
    }
    let refused = service.oneshot(of_alice()).await.unwrap();
    let exhausted = (Code::ResourceExhausted as i32).to_string();
    assert_eq!(field(refused.headers(), "grpc-status"), Some(exhausted));
    assert_eq!(
        field(refused.headers(), "retry-after").as_deref(),
        Some("60")
    );
    assert_eq!(left(&limiter).await, [0, 1]);
}

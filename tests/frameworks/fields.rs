//! Header fields at their edges.

use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{AppendHeaders, Response};
use axum::routing::get;
use ratelimit_runtime::store::StoreError;
use ratelimit_runtime::{
    Algorithm, CalendarUnit, Key, Limit, RateLimitError, RateLimitLayer, RateLimiter, Responses,
    Rule, rate_limit,
};
use tonic::{Code, Status};
use tower::ServiceExt as _;

use crate::axum_server::{ask, request};
use crate::{Item, item, parsed, policy, standing};

async fn refusal(rule: &Rule) -> RateLimitError {
    let limiter = RateLimiter::memory();
    for _ in 0..3 {
        if let Err(error) = limiter.acquire(rule, &Key::of("alice")).await {
            return error;
        }
    }
    panic!("never refused");
}

/// A limiter whose responses have the fields of older clients.
fn legacy() -> RateLimiter {
    let responses = Responses::new().legacy_headers(true);
    RateLimiter::builder().responses(responses).build().unwrap()
}

fn field(error: &RateLimitError, name: &str) -> Vec<Item> {
    let response = error.to_http_response();
    parsed(
        response
            .headers()
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap()),
    )
}

#[tokio::test(start_paused = true)]
async fn names_and_numbers_fit_structured_fields() {
    let error = refusal(&Rule::named(
        "müde \"ä\\b\"",
        Limit::new(2, Duration::from_millis(1500)),
    ))
    .await;
    assert_eq!(
        field(&error, "ratelimit-policy"),
        [item("m%C3%BCde \"%C3%A4\\b\"", &[("q", 2), ("w", 2)])]
    );
    assert_eq!(
        field(&error, "ratelimit"),
        [item("m%C3%BCde \"%C3%A4\\b\"", &[("r", 0), ("t", 2)])]
    );

    let huge = Rule::named("huge", Limit::per_minute(Limit::MAX_COUNT))
        .with_cost(Limit::MAX_COUNT)
        .with_algorithm(Algorithm::FixedWindow);
    assert_eq!(
        field(&refusal(&huge).await, "ratelimit-policy"),
        [policy("huge", 999_999_999_999_999, 60)]
    );
}

#[tokio::test(start_paused = true)]
async fn names_that_are_not_ascii_stay_apart() {
    let mut told = Vec::new();
    for name in ["登录", "注册", "__", "müde", "mü%64e", "a%20b", "a b"] {
        let error = refusal(&Rule::named(name, Limit::per_minute(2))).await;
        let [standing] = &field(&error, "ratelimit")[..] else {
            panic!("one limit decided")
        };
        told.push(standing.0.clone());
    }
    assert_eq!(
        told,
        [
            "%E7%99%BB%E5%BD%95",
            "%E6%B3%A8%E5%86%8C",
            "__",
            "m%C3%BCde",
            "m%C3%BC%2564e",
            "a%2520b",
            "a b"
        ]
    );
}

static UPLOAD: LazyLock<Rule> = LazyLock::new(|| {
    let rule = Rule::new("upload", Limit::per_hour(1000).with_burst(2)).and(Limit::per_day(2000));
    rule.with_algorithm(Algorithm::TokenBucket)
});

#[tokio::test(start_paused = true)]
async fn a_bucket_says_its_burst() {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory());
    let app = Router::new()
        .route("/", get(async || "hello"))
        .layer(layer.rule(&UPLOAD, |_: &Request| Key::of("all")));
    for left in [1, 0, 0] {
        let answer = ask(&app, request("/")).await;
        assert_eq!(
            answer.policies,
            [
                item("upload", &[("q", 1000), ("w", 3600), ("burst", 2)]),
                policy("upload/2", 2000, 86_400),
            ]
        );
        assert_eq!(
            (answer.standings[0].0.as_str(), &answer.standings[0].1[0]),
            ("upload", &("r".to_owned(), left))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_about_calls_in_flight_has_their_unit_and_no_time() {
    let limiter = legacy();
    let rule = Rule::in_flight("export", 1);
    let _permit = limiter.enter(&rule, &Key::of("alice")).await.unwrap();
    let error = limiter.enter(&rule, &Key::of("alice")).await.unwrap_err();
    let refused = limiter.scope(async { error.to_http_response() }).await;
    let field = |name: &str| {
        refused
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap())
    };
    assert_eq!(
        (refused.status().as_u16(), field("retry-after")),
        (429, None)
    );
    assert_eq!(
        field("ratelimit-policy"),
        Some("\"export\";q=1;qu=\"concurrent-requests\"")
    );
    assert_eq!(field("ratelimit"), Some("\"export\";r=0"));
    assert_eq!(
        (field("x-ratelimit-remaining"), field("x-ratelimit-reset")),
        (Some("0"), None)
    );
}

/// A burst is not the number of calls admitted in a window.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_knows_the_burst_alone_states_no_policy() {
    let error = refusal(&UPLOAD).await;
    assert_eq!(field(&error, "ratelimit-policy"), []);
    assert_eq!(field(&error, "ratelimit"), [standing("upload", 0, 4)]);

    let even = Rule::named("even", Limit::per_minute(2)).with_algorithm(Algorithm::LeakyBucket);
    assert_eq!(
        field(&refusal(&even).await, "ratelimit-policy"),
        [policy("even", 2, 60)]
    );
}

/// A month has 28 to 31 days, a day 23 to 25 hours: `w` is optional in the draft, and a wrong one
/// misleads. `t` says when the period ends.
#[tokio::test]
async fn a_calendar_quota_states_no_window() {
    let rule = Rule::named("export", Limit::calendar(2, CalendarUnit::Month))
        .with_algorithm(Algorithm::FixedWindow);
    let error = refusal(&rule).await;
    assert_eq!(
        field(&error, "ratelimit-policy"),
        [item("export", &[("q", 2)])]
    );
    let [standing] = &field(&error, "ratelimit")[..] else {
        panic!("one limit decided")
    };
    let wait = i64::try_from(error.retry_after().unwrap().as_secs()).unwrap();
    assert_eq!(
        (&standing.1[0], standing.1[1].0.as_str()),
        (&("r".to_owned(), 0), "t")
    );
    assert!((standing.1[1].1 - wait).abs() <= 1, "{standing:?}");
}

#[rate_limit(window = "60s", max = 2, count = "err", name = "login")]
async fn login(works: bool) -> Result<(), RateLimitError> {
    if works {
        Ok(())
    } else {
        Err(RateLimitError::Unavailable(StoreError::unavailable(
            "wrong password",
        )))
    }
}

/// The outcome of a counted call is known when the response is on its way.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_settled_later_leaves_no_number() {
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory());
    let handler = async |request: Request| login(request.uri().path() == "/works").await;
    let app = Router::new().fallback(handler).layer(layer);
    for path in ["/works", "/works", "/fails", "/fails"] {
        let answer = ask(&app, request(path)).await;
        assert_eq!(answer.policies, [policy("login", 2, 60)], "{path}");
        assert_eq!(answer.standings, [], "{path}");
    }
    let refused = ask(&app, request("/works")).await;
    assert_eq!(
        (refused.status, &refused.standings[0].1[0]),
        (429, &("r".to_owned(), 0))
    );
}

#[tokio::test(start_paused = true)]
async fn of_several_keys_of_a_rule_the_one_closest_to_a_refusal_is_reported() {
    let handler = async |request: Request| -> Result<(), RateLimitError> {
        let rule = Rule::new("twice", Limit::per_hour(5));
        for key in request.uri().path().chars() {
            RateLimiter::current()
                .acquire(&rule, &Key::of(&key))
                .await?;
        }
        Ok(())
    };
    let app = Router::new()
        .fallback(handler)
        .layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    for (path, left) in [("/aab", 3), ("/ca", 2)] {
        assert_eq!(
            ask(&app, request(path)).await.standings[0].1[0],
            ("r".to_owned(), left)
        );
    }
}

/// Fields that a handler passes on from a server behind it. A line that is no list, as earlier
/// drafts had it, would make one that clients cannot read.
#[tokio::test(start_paused = true)]
async fn fields_of_the_handler_are_in_one_line_with_those_of_the_layer() {
    let handler = async || {
        let fields = [
            ("ratelimit", "\"behind\";r=7"),
            ("ratelimit", ""),
            ("ratelimit", " "),
            ("ratelimit", "limit=100, remaining=50, reset=5"),
            ("ratelimit", "\"far behind\";r=8"),
            ("x-ratelimit-remaining", "unknown"),
        ];
        AppendHeaders(fields)
    };
    let layer = RateLimitLayer::new().limiter(legacy());
    let layer = layer.rule(&UPLOAD, |_: &Request| Key::of("all"));
    let app = Router::new().route("/", get(handler)).layer(layer);
    let answer = ask(&app, request("/")).await;
    let names: Vec<_> = answer.standings.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["behind", "far behind", "upload"]);
    assert_eq!(answer.legacy, ["2", "1", "4"]);
}

/// A server behind a gateway must not hold it up.
#[tokio::test]
async fn a_long_list_of_the_handler_is_joined_in_no_time() {
    let list: Vec<_> = (0..16_000).map(|nth| format!("\"{nth}\";r=9")).collect();
    let list = list.join(", ");
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory());
    let app = Router::new()
        .route("/", get(async || AppendHeaders([("ratelimit", list)])))
        .layer(layer.rule(&UPLOAD, |_: &Request| Key::of("all")));
    let began = std::time::Instant::now();
    assert_eq!(ask(&app, request("/")).await.standings.len(), 16_001);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

static SHARED: Rule = Rule::new("shared", Limit::per_minute(5));

/// A client looks a limit up by its name.
#[tokio::test(start_paused = true)]
async fn a_name_stands_once_however_many_layers_tell_of_it() {
    let handler = async || {
        let fields = [
            ("ratelimit-policy", "\"behind\";q=7;w=1, \"shared\";q=3"),
            ("ratelimit", "\"shared\";r=2;pk=:YQ==:"),
            ("ratelimit", "\"behind\";r=7, \"behind\";r=6"),
        ];
        AppendHeaders(fields)
    };
    let limiter = RateLimiter::memory();
    for _ in 0..2 {
        let acquired = limiter.acquire(&SHARED, &Key::of("used")).await;
        assert!(acquired.is_ok());
    }
    let layer = |key: &'static str| {
        let layer = RateLimitLayer::new().limiter(limiter.clone());
        layer.rule(&SHARED, move |_: &Request| Key::of(key))
    };
    let policies = [policy("shared", 5, 60)];
    // Whichever of them is the outer one.
    for (keys, left) in [(["used", "new"], 2), (["new", "used"], 1)] {
        let [inner, outer] = keys.map(layer);
        let app = Router::new().route("/", get(async || "hello"));
        let answer = ask(&app.layer(inner).layer(outer), request("/")).await;
        assert_eq!(answer.policies, policies);
        assert_eq!(answer.standings, [standing("shared", left, 60)]);
    }
    let proxied = Router::new().route("/", get(handler));
    let proxied = proxied.layer(layer("new")).layer(layer("used"));
    let response = proxied.oneshot(request("/")).await.unwrap();
    let field = |name: &str| response.headers()[name].to_str().unwrap();
    assert_eq!(
        field("ratelimit-policy"),
        r#""behind";q=7;w=1, "shared";q=5;w=60"#
    );
    assert_eq!(field("ratelimit"), r#""shared";r=0;t=60, "behind";r=6"#);
}

/// Clients get the last part of a name.
#[tokio::test(start_paused = true)]
async fn the_limits_of_a_name_and_what_is_left_are_those_of_one_rule() {
    let mails = Rule::new("mails.send", Limit::new(100, Duration::from_secs(600)));
    let letters = Rule::new("letters.send", Limit::per_minute(5));
    for (used, expected) in [(98, [100, 600, 1]), (0, [5, 60, 4])] {
        for [inner, outer] in [[&mails, &letters], [&letters, &mails]] {
            let limiter = RateLimiter::memory();
            for _ in 0..used {
                assert!(limiter.acquire(&mails, &Key::global()).await.is_ok());
            }
            let layer = |rule| {
                let layer = RateLimitLayer::new().limiter(limiter.clone());
                layer.rule(rule, |_: &Request| Key::global())
            };
            let app = Router::new().route("/", get(async || "hello"));
            let answer = ask(&app.layer(layer(inner)).layer(layer(outer)), request("/")).await;
            let [q, w, r] = expected;
            assert_eq!(answer.policies, [policy("send", q, w)]);
            assert_eq!(answer.standings, [standing("send", r, w)]);
        }
    }
}

mod mails {
    #[ratelimit_runtime::rate_limit(window = "60s", max = 5)]
    pub(super) async fn send() -> Result<(), ratelimit_runtime::RateLimitError> {
        Ok(())
    }
}

mod letters {
    #[ratelimit_runtime::rate_limit(window = "10s", max = 2)]
    pub(super) async fn send() -> Result<(), ratelimit_runtime::RateLimitError> {
        Ok(())
    }
}

/// Clients get the last part of a path.
#[tokio::test(start_paused = true)]
async fn rules_that_clients_see_under_one_name_are_one_item() {
    let handler = async |request: Request| -> Result<(), RateLimitError> {
        if request.uri().path() == "/mails-first" {
            mails::send().await?;
            return letters::send().await;
        }
        letters::send().await?;
        mails::send().await
    };
    let layer = RateLimitLayer::new().limiter(RateLimiter::memory());
    let app = Router::new().fallback(handler).layer(layer);
    for (path, left) in [("/mails-first", 1), ("/", 0), ("/", 0)] {
        let answer = ask(&app, request(path)).await;
        assert_eq!(answer.policies, [policy("send", 2, 10)]);
        assert_eq!(answer.standings, [standing("send", left, 10)]);
    }
}

static EXPORT: LazyLock<Rule> = LazyLock::new(|| Rule::in_flight("export", 1));

/// When a call in flight ends is not known.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_limit_that_leaves_more_is_not_that_of_calls_in_flight() {
    let layer = || RateLimitLayer::new().limiter(legacy());
    let in_flight = async |request: Request, next: Next| -> Result<Response, RateLimitError> {
        let limiter = RateLimiter::current();
        let _permit = limiter.enter(&EXPORT, &Key::of("all")).await?;
        Ok(next.run(request).await)
    };
    let app = Router::new()
        .route("/", get(async || "hello"))
        .layer(layer().rule(&UPLOAD, |_: &Request| Key::of("all")))
        .layer(from_fn(in_flight))
        .layer(layer());
    let response = app.oneshot(request("/")).await.unwrap();
    let field = |name: &str| response.headers().get(name).map(HeaderValue::as_bytes);
    assert_eq!(field("x-ratelimit-remaining"), Some(&b"0"[..]));
    assert_eq!(field("x-ratelimit-reset"), None);
}

/// A layer speaks of ten rules at most.
#[tokio::test(start_paused = true)]
async fn the_strictest_rules_are_named_however_many_were_asked() {
    let handler = async || -> Result<(), RateLimitError> {
        for nth in 0..12 {
            let rule = Rule::named(
                format!("rule {nth}"),
                Limit::per_minute(if nth == 11 { 2 } else { 9 }),
            );
            RateLimiter::current()
                .acquire(&rule, &Key::of("all"))
                .await?;
        }
        Ok(())
    };
    let app = Router::new()
        .route("/", get(handler))
        .layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    for (status, left) in [(200, 1), (200, 0), (429, 0)] {
        let answer = ask(&app, request("/")).await;
        assert_eq!((answer.status, answer.standings.len()), (status, 10));
        assert_eq!(answer.standings[9], standing("rule 11", left, 60));
    }
}

/// Proxies have 4 to 16 kB for all headers of a response.
#[tokio::test(start_paused = true)]
async fn fields_of_long_names_are_bounded_and_the_strictest_rule_is_among_them() {
    let rules: Vec<Rule> = (0..10)
        .map(|nth| {
            let limit = |max| Limit::new(max, Duration::from_secs(60 + max));
            let name = format!("{nth}{}", "登".repeat(42));
            let rule = Rule::named(name, limit(if nth == 9 { 1 } else { 9 }));
            (10..17).fold(rule, |rule, max| rule.and(limit(max)))
        })
        .collect();
    let handler = async move || -> Result<(), RateLimitError> {
        for rule in &rules {
            let limiter = RateLimiter::current();
            limiter.acquire(rule, &Key::of("all")).await?;
        }
        Ok(())
    };
    let app = Router::new()
        .route("/", get(handler))
        .layer(RateLimitLayer::new().limiter(RateLimiter::memory()));
    for status in [200, 429] {
        let response = app.clone().oneshot(request("/")).await.unwrap();
        assert_eq!(response.status(), status);
        let field = |name: &str| response.headers()[name].to_str().unwrap();
        let (policies, standings) = (field("ratelimit-policy"), field("ratelimit"));
        let bytes = policies.len() + standings.len();
        assert!(bytes < 8_000, "{bytes}");
        assert!(standings.contains("\"9%E7"), "{standings}");
    }
}

#[rate_limit(window = "60s", max = 1)]
async fn derived() -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn clients_are_not_told_where_in_the_source_a_limit_is() {
    let error = RateLimiter::memory()
        .scope(async {
            derived().await.unwrap();
            derived().await.unwrap_err()
        })
        .await;
    assert!(
        error.decision().unwrap().rule().contains("fields"),
        "a path"
    );
    assert_eq!(
        field(&error, "ratelimit-policy"),
        [policy("derived", 1, 60)]
    );
}

/// It stands for all names beyond those that a process keeps: one of their rules may be hidden.
#[tokio::test(start_paused = true)]
async fn the_name_of_no_rule_is_not_shown_where_names_are_chosen() {
    let error = refusal(&Rule::named("(other)", Limit::per_minute(1))).await;
    let responses = Responses::new().rule_names(|rule| Some(rule));
    let limiter = RateLimiter::builder().responses(responses).build().unwrap();
    let response = limiter.scope(async { error.to_http_response() }).await;
    assert!(!response.headers().contains_key("ratelimit"));
}

#[tokio::test(start_paused = true)]
async fn a_moment_is_rounded_up_and_the_same_in_both_fields() {
    let error = refusal(&Rule::named(
        "short",
        Limit::new(1, Duration::from_micros(1_000_001)),
    ))
    .await;
    assert_eq!(error.to_http_response().headers()["retry-after"], "2");
    assert_eq!(field(&error, "ratelimit"), [standing("short", 0, 2)]);
}

#[tokio::test(start_paused = true)]
async fn no_field_names_a_time_where_waiting_does_not_help() {
    let errors = [
        (
            413,
            Code::InvalidArgument,
            refusal(&Rule::named("heavy", Limit::per_minute(1)).with_cost(2)).await,
        ),
        (
            503,
            Code::Unavailable,
            RateLimitError::Unavailable(StoreError::unavailable("away")),
        ),
        (
            500,
            Code::Internal,
            RateLimitError::Misconfigured(StoreError::misconfigured("wrong")),
        ),
    ];
    for (status, code, error) in errors {
        assert_eq!(StatusCode::from(error.clone()), status);
        let grpc = Status::from(error.clone());
        assert_eq!(
            (grpc.code(), grpc.metadata().get("retry-after")),
            (code, None),
            "{grpc}"
        );
        let response = error.to_http_response();
        assert_eq!(response.status(), status);
        for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
            assert!(!response.headers().contains_key(name), "{status}: {name}");
        }
    }
}

//! The bytes that processes and releases share: stored keys and logs. Frozen; a test here that
//! fails is a new format.

#![allow(
    clippy::unused_async,
    unused_variables,
    reason = "the attribute awaits, and takes what is in a key"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Request, Store, Verdict};
use ratelimit_runtime::{
    Algorithm, Key, KeyPart, Limit, RateLimitError, RateLimiter, RateLimiterBuilder, Rule,
    rate_limit,
};

type Outcome = Result<(), RateLimitError>;

/// Admits everything and writes down the keys, as lossless text.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn record(&self, request: &Request<'_>) {
        let key = String::from_utf8(request.key().to_vec()).unwrap();
        let rule = std::str::from_utf8(request.rule_key()).unwrap();
        assert!(
            key.starts_with(rule) && rule.ends_with(':'),
            "{rule} begins {key}"
        );
        self.0.lock().unwrap().push(key);
    }

    /// The keys since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Store for Recorder {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.record(&request);
        let mut admitted = Verdict::admitted();
        admitted.remaining = 1;
        Answer::ready(Ok(admitted))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.acquire(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.record(&request);
        Answer::ready(Ok(true))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}

fn recorded() -> (RateLimiter, Recorder) {
    built(|builder| builder)
}

fn built(set_up: impl FnOnce(RateLimiterBuilder) -> RateLimiterBuilder) -> (RateLimiter, Recorder) {
    let recorder = Recorder::default();
    (
        set_up(RateLimiter::builder().store(recorder.clone()))
            .build()
            .unwrap(),
        recorder,
    )
}

/// The one key of a call by hand.
async fn key_of(rule: &Rule, key: &Key) -> String {
    let (limiter, recorder) = recorded();
    let _ = limiter.acquire(rule, key).await.unwrap();
    recorder.take().concat()
}

#[rate_limit(key = "<email>", window = "60s", max = 3, name = "send_code")]
async fn send_code(email: &str) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_stored_key_is_prefix_format_algorithm_window_name_and_value() {
    let (limiter, recorder) = built(|builder| builder.prefix("shop:prod"));
    limiter.scope(send_code("alice@example.com")).await.unwrap();
    assert_eq!(
        recorder.take(),
        ["shop:prod:rl1:sw-60s:send_code:<alice@example.com>"]
    );

    // By hand it is the same bucket, whatever is done with it.
    let (rule, alice) = (
        Rule::new("send_code", Limit::per_minute(3)),
        Key::of("alice@example.com"),
    );
    let _ = limiter.acquire(&rule, &alice).await.unwrap();
    let _ = limiter.peek(&rule, &alice).await.unwrap();
    limiter.reset(&rule, &alice).await.unwrap();
    assert_eq!(
        recorder.take(),
        ["shop:prod:rl1:sw-60s:send_code:<alice@example.com>"; 3]
    );

    let (limiter, recorder) = recorded();
    limiter.scope(send_code("alice@example.com")).await.unwrap();
    assert_eq!(
        recorder.take(),
        ["rl1:sw-60s:send_code:<alice@example.com>"]
    );
}

mod shop {
    use super::*;

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    pub(super) async fn free(id: u32) -> Outcome {
        Ok(())
    }

    pub(super) mod cart {
        use super::*;

        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        pub(in super::super) async fn free(id: u32) -> Outcome {
            Ok(())
        }
    }

    pub(super) struct Mailer;

    impl Mailer {
        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        pub(super) async fn send(&self, id: u32) -> Outcome {
            Ok(())
        }

        #[rate_limit(window = "60s", max = 1)]
        pub(super) async fn without_key() -> Outcome {
            Ok(())
        }
    }

    pub(super) trait Notify {
        async fn notify(&self, id: u32) -> Outcome;
        async fn stacked(&self, id: u32) -> Outcome;
    }

    impl Notify for Mailer {
        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        async fn notify(&self, id: u32) -> Outcome {
            Ok(())
        }

        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        #[rate_limit(window = "1h", max = 100)]
        async fn stacked(&self, id: u32) -> Outcome {
            Ok(())
        }
    }

    #[async_trait::async_trait]
    pub(super) trait Boxed {
        async fn boxed(&self, id: u32) -> Outcome;
    }

    #[async_trait::async_trait]
    impl Boxed for Mailer {
        #[rate_limit(key = "<id>", window = "60s", max = 1)]
        async fn boxed(&self, id: u32) -> Outcome {
            Ok(())
        }
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    pub(super) async fn generic<T: KeyPart>(id: T) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<r#type>", window = "60s", max = 1)]
    pub(super) async fn r#match(r#type: u32) -> Outcome {
        Ok(())
    }

    pub(super) struct Holder<T>(pub(super) T);

    impl<T: KeyPart> Holder<T> {
        #[rate_limit(key = "<self.0>", window = "60s", max = 1)]
        pub(super) async fn hold(&self) -> Outcome {
            Ok(())
        }
    }
}

#[tokio::test]
async fn derived_names_are_paths_and_types() {
    use shop::{Boxed as _, Notify as _};

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn local(id: u32) -> Outcome {
        Ok(())
    }

    let (limiter, recorder) = recorded();
    let calls = async {
        shop::free(7).await.unwrap();
        shop::cart::free(7).await.unwrap();
        shop::Mailer.send(7).await.unwrap();
        shop::Mailer::without_key().await.unwrap();
        shop::Mailer.notify(7).await.unwrap();
        shop::Mailer.stacked(7).await.unwrap();
        shop::Mailer.boxed(7).await.unwrap();
        shop::generic("7").await.unwrap();
        shop::generic(7_u64).await.unwrap();
        shop::r#match(7).await.unwrap();
        local(7).await.unwrap();
        shop::Holder("7").hold().await.unwrap();
        shop::Holder(7_u8).hold().await.unwrap();
    };
    limiter.scope(calls).await;
    assert_eq!(
        recorder.take(),
        [
            "rl1:sw-60s:redis.formats.shop.free:<7>",
            "rl1:sw-60s:redis.formats.shop.cart.free:<7>",
            "rl1:sw-60s:redis.formats.shop.Mailer.send:<7>",
            "rl1:sw-60s:redis.formats.shop.Mailer.without_key:",
            "rl1:sw-60s:<redis.formats.shop.Mailer+as+redis.formats.shop.Notify>.notify:<7>",
            // A stack that the store decides one by one is looked at before it is charged.
            "rl1:sw-60s:<redis.formats.shop.Mailer+as+redis.formats.shop.Notify>.stacked:<7>",
            "rl1:sw-3600s:<redis.formats.shop.Mailer+as+redis.formats.shop.Notify>.stacked#2:",
            "rl1:sw-60s:<redis.formats.shop.Mailer+as+redis.formats.shop.Notify>.stacked:<7>",
            "rl1:sw-3600s:<redis.formats.shop.Mailer+as+redis.formats.shop.Notify>.stacked#2:",
            "rl1:sw-60s:<redis.formats.shop.Mailer+as+redis.formats.shop.Boxed>.boxed:<7>",
            "rl1:sw-60s:redis.formats.shop.generic:<7>",
            "rl1:sw-60s:redis.formats.shop.generic:<7>",
            "rl1:sw-60s:redis.formats.shop.match:<7>",
            "rl1:sw-60s:redis.formats.derived_names_are_paths_and_types.local:<7>",
            // Instances of a generic type share a name.
            "rl1:sw-60s:redis.formats.shop.Holder<_>.hold:<7>",
            "rl1:sw-60s:redis.formats.shop.Holder<_>.hold:<7>",
        ]
    );
}

#[tokio::test]
async fn windows_are_spelled_in_their_largest_whole_unit() {
    let windows = [
        (Duration::from_millis(1), "1ms"),
        (Duration::from_millis(1_500), "1500ms"),
        (Duration::from_micros(1_001), "1001us"),
        (Duration::from_secs(60), "60s"),
        (Duration::from_secs(90), "90s"),
        (Duration::from_secs(366 * 24 * 60 * 60), "31622400s"),
    ];
    for (window, spelled) in windows {
        let rule = Rule::new("w", Limit::new(1, window));
        assert_eq!(
            key_of(&rule, &Key::global()).await,
            format!("rl1:sw-{spelled}:w:")
        );
    }
}

#[tokio::test]
async fn names_are_escaped() {
    let names = [
        ("auth:login", "auth%3Alogin"),
        ("{auth}", "%7Bauth%7D"),
        ("100%", "100%25"),
        ("a\nb\0", "a%0Ab%00"),
        ("a%3Alogin", "a%253Alogin"),
        ("Größe", "Größe"),
    ];
    for (name, stored) in names {
        let rule = Rule::new(name, Limit::per_minute(1));
        assert_eq!(rule.name(), name, "decisions show the name as it was given");
        assert_eq!(
            key_of(&rule, &Key::of("x")).await,
            format!("rl1:sw-60s:{stored}:<x>")
        );
    }
}

/// As the attribute refuses one, at compile time.
#[test]
#[should_panic = "the name of a rule has at least one character"]
fn an_empty_name_is_refused() {
    let _ = Rule::named("", Limit::per_minute(1));
}

/// Zones in the spelling of the database; UTC is said, too.
#[tokio::test]
async fn calendar_windows_name_their_zone() {
    let limit = |text: &str| text.parse::<Limit>().unwrap();
    let rule = Rule::new("export", limit("5/60s"))
        .and(limit("5/day@europe/berlin"))
        .and(limit("5/hour@Etc/GMT+2"))
        .and(limit("5/month"))
        .with_algorithm(Algorithm::FixedWindow);
    let key = key_of(&rule, &Key::global()).await;
    assert_eq!(
        key,
        "rl1:fw-60s+day@Europe/Berlin+hour@Etc/GMT%2B2+month@UTC:export:"
    );
}

#[tokio::test]
async fn max_is_not_part_of_the_key_and_the_window_is() {
    let rule = |max, window| Rule::new("quota", Limit::new(max, Duration::from_secs(window)));
    let key = Key::of("a");
    let first = key_of(&rule(3, 60), &key).await;
    assert_eq!(key_of(&rule(300, 60), &key).await, first);
    assert_eq!(key_of(&rule(3, 60).with_max(4), &key).await, first);
    assert_eq!(key_of(&rule(3, 61), &key).await, "rl1:sw-61s:quota:<a>");
}

/// The digests were computed with OpenSSL: HMAC-SHA-256, keyed with the secret, over what the key
/// would be.
#[tokio::test]
async fn hashed_keys_show_nothing_of_the_value() {
    let (limiter, recorder) = built(|builder| builder.prefix("shop:prod").hash_keys("s3cret"));
    limiter.scope(send_code("alice@example.com")).await.unwrap();
    // As long as a digest.
    limiter
        .scope(send_code("abcdefghijklmnopqrs@example.com"))
        .await
        .unwrap();
    let without_key = Rule::new("export", Limit::per_minute(1));
    let _ = limiter.acquire(&without_key, &Key::global()).await.unwrap();
    assert_eq!(
        recorder.take(),
        [
            "shop:prod:rl1:sw-60s:send_code:#5788d7c727b4b56c783a49054c3b1f5f",
            "shop:prod:rl1:sw-60s:send_code:#7fea2a325274ccba9c4199f093e1b3ea",
            "shop:prod:rl1:sw-60s:export:",
        ]
    );
    let empty = RateLimiter::builder().hash_keys("").build();
    assert!(
        matches!(empty, Err(RateLimitError::Misconfigured(_))),
        "{empty:?}"
    );
}

#[test]
fn prefixes_that_could_collide_or_choose_a_node_are_refused() {
    let at_most = "x".repeat(64);
    for good in ["", "shop", "shop:prod", "a-b_c.d/e", "größe", &at_most] {
        assert!(
            RateLimiter::builder().prefix(good).build().is_ok(),
            "{good:?}"
        );
    }
    let too_long = "x".repeat(65);
    let bad = [
        ("{shop}", "brace"),
        ("a}", "brace"),
        ("a b", "white space"),
        ("a\n", "white space or a control"),
        ("a\u{7f}", "control"),
        ("rl1", "`rl1`"),
        ("shop:rl1", "`rl1`"),
        ("rl1:x", "`rl1`"),
        ("shop:rl1:x", "`rl1`"),
        (&too_long, "64 bytes"),
    ];
    for (prefix, expected) in bad {
        let error = RateLimiter::builder().prefix(prefix).build().unwrap_err();
        assert!(
            matches!(error, RateLimitError::Misconfigured(_)),
            "{prefix:?}: {error:?}"
        );
        assert!(error.to_string().contains(expected), "{prefix:?}: {error}");
    }
}

/// The abbreviations in keys that the page has frozen.
#[tokio::test]
async fn every_algorithm_has_the_abbreviation_that_is_written_down() {
    const PAGE: &str = include_str!("../../docs/redis_format.md");
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let rule = Rule::new("tag", Limit::per_minute(1)).with_algorithm(algorithm);
        let key = key_of(&rule, &Key::global()).await;
        let tag = key
            .split(':')
            .nth(1)
            .and_then(|part| part.strip_suffix("-60s"))
            .unwrap();
        let row = |line: &str| {
            line.starts_with(&format!("| `{algorithm}` |"))
                && line.ends_with(&format!("| `{tag}` |"))
        };
        assert!(PAGE.lines().any(row), "{algorithm}: {key}");
    }
}

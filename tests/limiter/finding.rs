//! A call finds the limiter of its scope, of its thread, or of the process.

use ratelimit_runtime::{RateLimitError, RateLimiter, rate_limit};

type Outcome = Result<(), RateLimitError>;

fn is_exceeded<T>(result: &Result<T, RateLimitError>) -> bool {
    matches!(result, Err(RateLimitError::Exceeded(_)))
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn call(id: u32) -> Outcome {
    let _ = id;
    Ok(())
}

#[tokio::test]
async fn scope_goes_before_the_thread_default() {
    let (outer, inner) = (RateLimiter::memory(), RateLimiter::memory());
    let guard = outer.set_default();
    assert!(call(1).await.is_ok());
    assert!(is_exceeded(&call(1).await));
    inner.scope(async { assert!(call(1).await.is_ok()) }).await;
    let nested = inner.set_default();
    assert!(is_exceeded(&call(1).await));
    assert!(call(2).await.is_ok());
    drop(nested);
    assert!(call(2).await.is_ok());
    drop(guard);
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = limiter)]
async fn call_on(limiter: &RateLimiter, id: u32) -> Outcome {
    let _ = id;
    Ok(())
}

#[tokio::test]
async fn the_limiter_of_the_attribute_goes_before_the_scope() {
    let (own, scoped) = (RateLimiter::memory(), RateLimiter::memory());
    let calls = async {
        assert!(call_on(&own, 1).await.is_ok());
        assert!(is_exceeded(&call_on(&own, 1).await));
        assert!(call_on(&scoped, 1).await.is_ok());
    };
    scoped.scope(calls).await;
}

#[tokio::test]
async fn a_scoped_future_can_be_spawned() {
    let limiter = RateLimiter::memory();
    let task = tokio::spawn(limiter.scope(async { call(1).await }));
    assert!(task.await.unwrap().is_ok());
    limiter
        .scope(async { assert!(is_exceeded(&call(1).await)) })
        .await;
}

/// Runs itself as another process, which no other test has given a limiter.
#[test]
fn a_forgotten_install_is_reported_once_on_standard_error_without_a_subscriber() {
    const CHILD: &str = "RATELIMIT_TEST_FORGETS_INSTALL";
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        assert!(runtime.block_on(call(1)).is_ok());
        assert!(
            is_exceeded(&runtime.block_on(call(1))),
            "the limit holds all the same"
        );
        return;
    }
    let name =
        "finding::a_forgotten_install_is_reported_once_on_standard_error_without_a_subscriber";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(
        said.matches("no rate limiter is installed").count(),
        1,
        "{said}"
    );
    assert!(
        said.contains("RateLimiter::redis(url)?.install()"),
        "it says what to write: {said}"
    );
}

#[tokio::test]
async fn guards_may_be_dropped_in_any_order() {
    let (one, two) = (RateLimiter::memory(), RateLimiter::memory());
    let first = one.set_default();
    let second = two.set_default();
    drop(first);
    assert!(call(1).await.is_ok());
    assert!(is_exceeded(&call(1).await));
    drop(second);
}

/// In processes of their own, because the environment is that of all tests.
#[test]
fn from_env_takes_ratelimit_url_before_redis_url_and_else_memory() {
    const EXPECTED: &str = "RATELIMIT_TEST_FROM_ENV";
    const NAME: &str = "finding::from_env_takes_ratelimit_url_before_redis_url_and_else_memory";
    if let Ok(expected) = std::env::var(EXPECTED) {
        let said = RateLimiter::from_env()
            .map_or_else(|error| error.to_string(), |_| "a limiter".to_owned());
        assert!(said.contains(&expected), "{said}");
        return;
    }
    for (own, redis, expected) in [
        (None, None, "a limiter"),
        (Some("memory:"), Some("nonsense"), "a limiter"),
        (Some("nonsense"), Some("memory:"), "RATELIMIT_URL"),
        (None, Some("nonsense"), "REDIS_URL"),
        (None, Some("redis://127.0.0.1/"), "a limiter"),
    ] {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", NAME]).env(EXPECTED, expected);
        for (variable, url) in [("RATELIMIT_URL", own), ("REDIS_URL", redis)] {
            match url {
                Some(url) => process.env(variable, url),
                None => process.env_remove(variable),
            };
        }
        let output = process.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let passed = output.status.success() && said.contains("1 passed");
        assert!(passed, "{own:?} {redis:?}: {said}");
    }
}

/// In processes of their own, because the environment is that of all tests.
#[test]
fn from_env_takes_the_prefix_unless_the_builder_has_one() {
    const EXPECTED: &str = "RATELIMIT_TEST_PREFIX";
    const NAME: &str = "finding::from_env_takes_the_prefix_unless_the_builder_has_one";
    if let Ok(expected) = std::env::var(EXPECTED) {
        let (before, said) = expected.split_once('|').unwrap();
        let builder = RateLimiter::builder();
        let builder = match before {
            "" => builder,
            prefix => builder.prefix(prefix),
        };
        let settings = builder
            .store_from_env()
            .map(|builder| format!("{builder:?}"));
        let found = settings.unwrap_or_else(|error| error.to_string());
        assert!(found.contains(said), "{found}");
        return;
    }
    for (prefix, expected) in [
        (None, r#"|prefix: """#),
        (Some(""), r#"|prefix: """#),
        (Some("shop:prod"), r#"|prefix: "shop:prod""#),
        (Some("shop:prod"), r#"mine|prefix: "mine""#),
        (
            Some("a{b}"),
            "|RATELIMIT_PREFIX: the prefix \"a{b}\" holds a brace",
        ),
    ] {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process
            .args(["--exact", NAME])
            .env(EXPECTED, expected)
            .env_remove("RATELIMIT_URL")
            .env_remove("REDIS_URL");
        match prefix {
            Some(prefix) => process.env("RATELIMIT_PREFIX", prefix),
            None => process.env_remove("RATELIMIT_PREFIX"),
        };
        let output = process.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let passed = output.status.success() && said.contains("1 passed");
        assert!(passed, "{prefix:?} {expected}: {said}");
    }
}

//! No lint fires, and none falls silent, because of the attribute. The module denies everything;
//! clippy's part runs with `cargo clippy --all-targets`. That `dead_code`, `unused_variables`,
//! `unused_mut`, `unused_must_use`, `deprecated` and `unreachable_code` still speak is in
//! `ui/fail/functions`.
//!
//! One exception is known: the guard waits, so an `async fn` that has no other `.await` is no
//! longer one for `clippy::unused_async`.
#![deny(
    warnings,
    unused,
    unreachable_code,
    rust_2018_idioms,
    unused_qualifications,
    let_underscore_drop,
    single_use_lifetimes,
    elided_lifetimes_in_paths,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::shadow_unrelated,
    clippy::shadow_reuse,
    clippy::let_underscore_untyped,
    clippy::let_underscore_must_use,
    clippy::semicolon_outside_block,
    clippy::implicit_return,
    clippy::absolute_paths,
    clippy::items_after_statements,
    clippy::large_futures,
    clippy::future_not_send
)]
#![allow(clippy::implicit_return, clippy::missing_docs_in_private_items, reason = "not a common style")]

mod counted;

use ratelimit_runtime::{KeyPart, RateLimitError, RateLimiter, key, rate_limit};

type Outcome = Result<(), RateLimitError>;

/// Functions whose bodies a macro makes.
macro_rules! made {
    ($block:ident: $of_block:block, $expr:ident: $of_expr:expr, $stmt:ident: $of_stmt:stmt, $tokens:ident: $($of_tokens:tt)*) => {
        #[rate_limit(window = "60s", max = 1)]
        async fn $block() -> Outcome $of_block
        #[rate_limit(window = "60s", max = 1)]
        async fn $expr() -> Outcome { $of_expr }
        #[rate_limit(window = "60s", max = 1)]
        async fn $stmt() -> Outcome { $of_stmt }
        #[rate_limit(window = "60s", max = 1)]
        async fn $tokens() -> Outcome { $($of_tokens)* }
    };
}

made!(of_a_block: { Ok(()) }, of_an_expression: Ok(()), of_a_statement: return Ok(()), of_tokens: Ok(()));

/// The only use of `id` is in the key: it counts as used.
#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn only_in_the_key(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = quota, when = on, shadow = dry)]
async fn only_in_expressions(quota: u32, on: bool, dry: bool) -> Outcome {
    Ok(())
}

#[rate_limit(key = email.to_lowercase(), window = "60s", max = 1, on_refused = |_error| None)]
async fn key_expression(email: &str) -> Option<usize> {
    Some(email.len())
}

#[rate_limit(window = "60s", max = 1, on_refused = drop)]
async fn nothing_to_return() {}

#[rate_limit(window = "60s", max = 1, shadow)]
async fn shadow() {}

#[rate_limit(key = "<text>", window = "60s", max = 1)]
async fn mutable(mut text: String) -> Result<String, RateLimitError> {
    text.push('!');
    Ok(text)
}

#[rate_limit(key = "<a>:<c>", window = "60s", max = 1)]
async fn patterns((a, _): (u8, u8), [c, ..]: [u8; 3], _: &str) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn generic<T: KeyPart + Send + Sync, const N: usize>(id: T, pad: [u8; N]) -> Result<usize, RateLimitError> {
    Ok(pad.len())
}

#[rate_limit(key = "<email>", window = "60s", max = 2)]
#[rate_limit(window = "1h", max = 100)]
async fn stacked(email: &str) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<number>", window = "60s", max = 1)]
async fn early_return(number: i32) -> Result<i32, RateLimitError> {
    if number < 0 {
        return Ok(0);
    }
    only_in_the_key(7).await?;
    Ok(number)
}

#[allow(clippy::manual_async_fn, reason = "the shape is the point")]
#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn returns_a_future(id: u32) -> impl Future<Output = Outcome> + Send {
    async move { Ok(()) }
}

struct Service {
    name: &'static str,
    limiter: RateLimiter,
    calls: u32,
}

impl Service {
    #[rate_limit(key = "<self.name>", window = "60s", max = 1, limiter = self.limiter)]
    async fn by_ref(&self) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<self.name>", window = "60s", max = 1, limiter = self.limiter)]
    async fn by_mut(&mut self) -> Outcome {
        self.calls += 1;
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn associated(id: u32) -> Outcome {
        Ok(())
    }
}

#[async_trait::async_trait]
trait Send2 {
    async fn send(&self, to: (u32, &str)) -> Outcome;
}

#[async_trait::async_trait]
impl Send2 for Service {
    #[rate_limit(key = "<self.name>:<tenant>:<email>", window = "60s", max = 1)]
    async fn send(&self, (tenant, email): (u32, &str)) -> Outcome {
        Ok(())
    }
}

macro_rules! limited {
    ($name:ident, $key:literal) => {
        #[rate_limit(key = $key, window = "60s", max = 1)]
        async fn $name(email: &str) -> Outcome {
            Ok(())
        }
    };
}

limited!(made_by_a_macro, "<email>");

#[derive(KeyPart)]
struct Account<'a> {
    id: u32,
    name: &'a str,
}

#[derive(KeyPart)]
enum Kind {
    Guest,
    User { id: u32 },
}

#[tokio::test]
async fn what_is_linted_also_runs() {
    let limiter = RateLimiter::memory();
    let calls = async {
        for (first, again) in [
            (only_in_the_key(1).await, only_in_the_key(1).await),
            (only_in_expressions(1, true, false).await, only_in_expressions(1, true, false).await),
            (patterns((1, 2), [3, 4, 5], "").await, patterns((1, 9), [3, 9, 9], "x").await),
            (returns_a_future(1).await, returns_a_future(1).await),
            (Service::associated(1).await, Service::associated(1).await),
            (made_by_a_macro("a").await, made_by_a_macro("a").await),
            (of_a_block().await, of_a_block().await),
            (of_an_expression().await, of_an_expression().await),
            (of_a_statement().await, of_a_statement().await),
            (of_tokens().await, of_tokens().await),
        ] {
            assert!(first.is_ok());
            assert!(again.is_err());
        }
        assert_eq!(key_expression("A").await, Some(1));
        assert_eq!(key_expression("a").await, None);
        nothing_to_return().await;
        shadow().await;
        assert_eq!(mutable("a".to_owned()).await.ok().as_deref(), Some("a!"));
        assert!(mutable("a".to_owned()).await.is_err());
        assert_eq!(generic("a", [0; 3]).await.ok(), Some(3));
        assert!(generic("a", [0; 4]).await.is_err());
        assert!(stacked("a").await.is_ok() && stacked("a").await.is_ok());
        assert!(stacked("a").await.is_err());
        assert_eq!(early_return(-1).await.ok(), Some(0));
        assert_eq!(early_return(1).await.ok(), Some(1));
        let mut service = Service { name: "s", limiter: limiter.clone(), calls: 0 };
        assert!(service.by_ref().await.is_ok());
        assert!(service.by_ref().await.is_err());
        assert!(service.by_mut().await.is_ok());
        assert!(service.by_mut().await.is_err());
        assert_eq!(service.calls, 1);
        assert!(service.send((1, "a")).await.is_ok());
        assert!(service.send((1, "a")).await.is_err());
        let (account, kinds) = (Account { id: 1, name: "a" }, [Kind::Guest, Kind::User { id: 1 }]);
        assert_ne!(key!("<account>:<kinds>"), key!("<account.name>"));
    };
    limiter.scope(calls).await;
}

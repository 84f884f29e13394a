//! Functions of every shape: the first call runs, the second is refused, and another key has a
//! bucket of its own. No lint fires because of the attribute: the module denies all of them, and
//! clippy's part runs with `cargo clippy --all-targets`. That lints still speak is in `ui/fail`.
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
    clippy::absolute_paths,
    clippy::items_after_statements,
    clippy::large_futures,
    clippy::future_not_send
)]
#![allow(
    clippy::manual_async_fn,
    clippy::unused_self,
    reason = "the shapes are the point"
)]

mod counted;
mod futures;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use once_cell::sync::Lazy;
use ratelimit_runtime::{KeyPart, RateLimitError, RateLimiter, key, rate_limit};

use super::{Outcome, alone, is_exceeded};

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn free(email: &str) -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = quota, when = on, shadow = dry)]
async fn only_in_expressions(quota: u32, on: bool, dry: bool) -> Outcome {
    Ok(())
}

#[rate_limit(key = email.to_lowercase(), window = "60s", max = 1, on_refused = |_error| None)]
async fn gives_an_option(email: &str) -> Option<usize> {
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

#[rate_limit(key = "<number>", window = "60s", max = 1)]
async fn early_return(number: i32) -> Result<i32, RateLimitError> {
    if number < 0 {
        return Ok(0);
    }
    free("early").await?;
    Ok(number)
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn items_in_the_body(id: u32) -> Outcome {
    const fn key() -> u32 {
        1
    }
    assert_ne!(id, key());
    Ok(())
}

struct Point {
    x: i32,
    y: i32,
}

#[rate_limit(key = "<a.0>:<b>:<c>:<first>:<name>", window = "60s", max = 1)]
async fn patterns(
    a: (u8, u8),
    (b, _): (u8, u8),
    Point { x: c, y: _ }: Point,
    [first, ..]: [u8; 3],
    name: impl KeyPart + Send + Sync,
    mut count: u8,
    _: &str,
) -> Outcome {
    count += a.1;
    assert!(count > 0);
    Ok(())
}

struct Event {
    r#type: u32,
}

#[rate_limit(
    key = "<await>:<event.type>:<event.r#type>:<type>",
    window = "60s",
    max = 1
)]
async fn raw_identifier(r#type: &str, r#await: u8, event: Event) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn attributes_of_arguments(
    #[cfg_attr(all(), allow(unused_variables, reason = "the attribute is the point"))] id: u32,
    #[cfg(any())] absent: Absent,
    #[cfg(not(any()))] _present: u32,
) -> Outcome {
    Ok(())
}

/// In the template the name is written with combining marks, as some editors do.
#[rate_limit(key = "<größe>", window = "60s", max = 1)]
async fn combining_marks(größe: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", limits = ["1/60s", "1_000/1d"])]
async fn digits_in_groups(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = max, cost = cost)]
async fn signed_non_zero_numbers(id: u32, max: NonZero<i64>, cost: NonZero<i8>) -> Outcome {
    Ok(())
}

static LAZY: LazyLock<RateLimiter> = LazyLock::new(RateLimiter::memory);
#[allow(clippy::non_std_lazy_statics, reason = "the type is the point")]
static ONCE_CELL: Lazy<RateLimiter> = Lazy::new(RateLimiter::memory);

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = LAZY)]
async fn by_a_lazy_lock(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = ONCE_CELL)]
async fn by_a_lazy(id: u32) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn functions_are_limited_whatever_they_take() {
    one_each!(free("a"), free("b"));
    one_each!(mutable("a".to_owned()), mutable("b".to_owned()));
    one_each!(early_return(1), early_return(-1));
    one_each!(items_in_the_body(2), items_in_the_body(3));
    let call = async |b| patterns((1, 2), (b, 0), Point { x: 3, y: 4 }, [1; 3], "n", 0, "").await;
    one_each!(call(1), call(2));
    one_each!(
        raw_identifier("a", 1, Event { r#type: 1 }),
        raw_identifier("a", 1, Event { r#type: 2 })
    );
    one_each!(attributes_of_arguments(1, 2), attributes_of_arguments(2, 2));
    one_each!(combining_marks(1), combining_marks(2));
    one_each!(digits_in_groups(1), digits_in_groups(2));
    one_each!(by_a_lazy_lock(1), by_a_lazy_lock(2));
    one_each!(by_a_lazy(1), by_a_lazy(2));
    alone(async {
        let (max, cost) = (NonZero::<i64>::MAX, NonZero::<i8>::MAX);
        assert!(signed_non_zero_numbers(1, max, cost).await.is_ok());
        assert!(
            signed_non_zero_numbers(1, NonZero::<i64>::MIN, cost)
                .await
                .is_err(),
            "a negative limit is 0"
        );
    })
    .await;
}

#[tokio::test]
async fn functions_are_limited_whatever_they_return() {
    alone(async {
        assert!(only_in_expressions(1, true, false).await.is_ok());
        assert!(only_in_expressions(1, true, false).await.is_err());
        assert!(only_in_expressions(1, false, false).await.is_ok());
        assert!(only_in_expressions(1, true, true).await.is_ok());
        assert_eq!(
            (gives_an_option("A").await, gives_an_option("a").await),
            (Some(1), None)
        );
        nothing_to_return().await;
        shadow().await;
        assert_eq!(mutable("a".to_owned()).await.ok().as_deref(), Some("a!"));
    })
    .await;
}

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

#[tokio::test]
async fn bodies_that_a_macro_makes_are_limited() {
    alone(async {
        for admitted in [true, false] {
            assert_eq!(of_a_block().await.is_ok(), admitted);
            assert_eq!(of_an_expression().await.is_ok(), admitted);
            assert_eq!(of_a_statement().await.is_ok(), admitted);
            assert_eq!(of_tokens().await.is_ok(), admitted);
        }
    })
    .await;
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn generic<T: KeyPart + Send + Sync, const N: usize>(
    id: T,
    pad: [u8; N],
) -> Result<usize, RateLimitError> {
    Ok(pad.len())
}

struct Holder<'a, T> {
    name: &'a str,
    value: T,
}

impl<'a, T: Clone + Send + Sync> Holder<'a, T> {
    #[rate_limit(key = "<self.name>:<other>", window = "60s", max = 1)]
    async fn pick(&'a self, other: &str) -> Result<(T, &'a str), RateLimitError> {
        Ok((self.value.clone(), self.name))
    }

    #[rate_limit(key = "<self.name>:<other>", window = "60s", max = 1)]
    async fn name(
        &'a self,
        other: &str,
    ) -> Result<Box<dyn Fn(&str) -> &'a str + 'a>, RateLimitError> {
        Ok(Box::new(|_| self.name))
    }
}

#[tokio::test]
async fn instances_of_a_generic_function_share_a_bucket() {
    alone(async {
        assert_eq!(generic(7_u8, [0; 3]).await.ok(), Some(3));
        assert!(is_exceeded(&generic(7_u64, [0; 4]).await));
        assert!(is_exceeded(&generic("7", [0; 5]).await));
        let holder = Holder {
            name: "h",
            value: 5,
        };
        assert_eq!(holder.pick("x").await.ok(), Some((5, "h")));
        assert!(is_exceeded(&holder.pick("x").await));
        assert_eq!(holder.name("x").await.ok().map(|name| name("y")), Some("h"));
    })
    .await;
}

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

struct Service {
    id: u32,
    ran: AtomicUsize,
}

impl Service {
    const fn new(id: u32) -> Self {
        Self {
            id,
            ran: AtomicUsize::new(0),
        }
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn associated(id: u32) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn by_ref(&self) -> Outcome {
        self.ran.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn by_mut(&mut self) -> Outcome {
        *self.ran.get_mut() += 1;
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn by_value(self) -> Outcome {
        Ok(())
    }

    #[rate_limit(key = "<self.name()>:<self.id>", window = "60s", max = 1)]
    async fn by_arc(self: Arc<Self>) -> Outcome {
        Ok(())
    }

    fn name(&self) -> String {
        format!("service {}", self.id)
    }
}

trait Native {
    async fn call(&self, id: u32) -> Outcome;
}

impl Native for Service {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn call(&self, id: u32) -> Outcome {
        Ok(())
    }
}

struct Other;

impl Native for Other {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn call(&self, id: u32) -> Outcome {
        Ok(())
    }
}

#[async_trait::async_trait]
trait Boxed {
    async fn patterns(&mut self, to: (u32, &str), point: Point) -> Outcome;
    async fn inferred<T: KeyPart + Send + Sync>(
        self: Arc<Self>,
        id: T,
    ) -> Result<String, RateLimitError>
    where
        Self: Sized;
}

#[async_trait::async_trait]
impl Boxed for Service {
    #[rate_limit(key = "<self.id>:<tenant>:<email>:<x>:<y>", window = "60s", max = 1)]
    async fn patterns(&mut self, (tenant, email): (u32, &str), Point { x, y }: Point) -> Outcome {
        *self.ran.get_mut() += 1;
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn inferred<T: KeyPart + Send + Sync>(
        self: Arc<Self>,
        id: T,
    ) -> Result<String, RateLimitError> {
        let text = "ran".parse();
        Ok(text.unwrap_or_default())
    }
}

#[tokio::test]
async fn methods_are_limited_whatever_their_receivers() {
    let [one, two] = [1, 2].map(Service::new);
    one_each!(one.by_ref(), two.by_ref());
    assert_eq!(one.ran.load(Ordering::SeqCst), 1, "a refused body ran");
    one_each!(Service::associated(1), Service::associated(2));
    one_each!(Service::new(1).by_mut(), Service::new(2).by_mut());
    one_each!(Service::new(1).by_value(), Service::new(2).by_value());
    let arc = |id| Arc::new(Service::new(id));
    one_each!(arc(1).by_arc(), arc(2).by_arc());
    one_each!(arc(1).inferred("a"), arc(1).inferred("b"));
    let patterns = async |y| Service::new(1).patterns((1, "a"), Point { x: 1, y }).await;
    one_each!(patterns(1), patterns(2));
}

#[tokio::test]
async fn implementations_of_one_trait_method_have_buckets_of_their_own() {
    one_each!(Service::new(1).call(7), Other.call(7));
    let (account, kinds) = (
        Account { id: 1, name: "a" },
        [Kind::Guest, Kind::User { id: 1 }],
    );
    assert_ne!(key!("<account>:<kinds>"), key!("<account.name>"));
}

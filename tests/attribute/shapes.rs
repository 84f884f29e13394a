//! Functions of every shape: the first call runs, the second is refused, and the body of a refused
//! call does not run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(
    clippy::unused_async,
    clippy::manual_async_fn,
    clippy::needless_pass_by_value,
    reason = "the shapes are the point"
)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Outcome, alone, is_exceeded};
use ratelimit_runtime::{KeyPart, RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn free(email: &str) -> Outcome {
    assert!(!email.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_free_function_is_limited_by_its_argument() {
    alone(async {
        assert!(free("a").await.is_ok());
        assert!(is_exceeded(&free("a").await));
        assert!(free("b").await.is_ok());
    })
    .await;
}

struct Service {
    id: u64,
    ran: AtomicUsize,
}

impl Service {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn associated(id: u64) -> Outcome {
        let _ = id;
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
        let _ = self.id;
        Ok(())
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1)]
    async fn by_arc(self: Arc<Self>) -> Outcome {
        self.ran.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[rate_limit(key = "<self.name()>:<self.id>", window = "60s", max = 1)]
    async fn by_method(&self) -> Outcome {
        Ok(())
    }

    fn name(&self) -> String {
        format!("service {}", self.id)
    }
}

fn service(id: u64) -> Service {
    Service { id, ran: AtomicUsize::new(0) }
}

#[tokio::test]
async fn methods_of_every_receiver_are_limited_by_self() {
    alone(async {
        assert!(Service::associated(1).await.is_ok());
        assert!(is_exceeded(&Service::associated(1).await));
        let mut one = service(1);
        assert!(one.by_ref().await.is_ok());
        assert!(is_exceeded(&one.by_ref().await));
        assert_eq!(one.ran.load(Ordering::SeqCst), 1, "a refused body ran");
        assert!(one.by_mut().await.is_ok());
        assert!(is_exceeded(&one.by_mut().await));
        assert!(one.by_method().await.is_ok());
        assert!(is_exceeded(&one.by_method().await));
        assert!(one.by_value().await.is_ok());
        assert!(is_exceeded(&service(1).by_value().await));
        assert!(service(2).by_value().await.is_ok());
        let shared = Arc::new(service(1));
        assert!(shared.clone().by_arc().await.is_ok());
        assert!(is_exceeded(&shared.clone().by_arc().await));
        assert_eq!(shared.ran.load(Ordering::SeqCst), 1);
    })
    .await;
}

trait Native {
    async fn call(&self, id: u32) -> Outcome;
}

impl Native for Service {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn call(&self, id: u32) -> Outcome {
        let _ = id;
        Ok(())
    }
}

struct Other;

impl Native for Other {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn call(&self, id: u32) -> Outcome {
        let _ = id;
        Ok(())
    }
}

#[tokio::test]
async fn implementations_of_one_trait_method_have_buckets_of_their_own() {
    alone(async {
        assert!(service(1).call(7).await.is_ok());
        assert!(is_exceeded(&service(2).call(7).await));
        assert!(Other.call(7).await.is_ok());
    })
    .await;
}

#[async_trait::async_trait]
trait Boxed {
    async fn plain(&self, id: u32) -> Outcome;
    async fn patterns(&mut self, pair: (u32, String), point: Point, mut text: String) -> Outcome;
    async fn provided(&self, id: u32) -> Outcome;
    async fn inferred<T: KeyPart + Send + Sync>(self: Arc<Self>, id: T) -> Result<String, RateLimitError>
    where
        Self: Sized;
}

struct Point {
    x: i32,
    y: i32,
}

#[async_trait::async_trait]
impl Boxed for Service {
    #[rate_limit(key = "<self.id>:<id>", window = "60s", max = 1)]
    async fn plain(&self, id: u32) -> Outcome {
        self.ran.fetch_add(1, Ordering::SeqCst);
        let _ = id;
        Ok(())
    }

    #[rate_limit(key = "<self.id>:<a>:<b>:<x>:<y>:<text>", window = "60s", max = 1)]
    async fn patterns(&mut self, (a, b): (u32, String), Point { x, y }: Point, mut text: String) -> Outcome {
        text.push_str(&b);
        *self.ran.get_mut() += usize::try_from(a).unwrap() + usize::try_from(x + y).unwrap();
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn provided(&self, id: u32) -> Outcome {
        let _ = id;
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    async fn inferred<T: KeyPart + Send + Sync>(self: Arc<Self>, id: T) -> Result<String, RateLimitError> {
        let _ = id;
        let text = "ran".parse();
        Ok(text.unwrap())
    }
}

#[tokio::test]
async fn async_trait_methods_are_limited_patterns_included() {
    alone(async {
        let mut one = service(1);
        assert!(one.plain(7).await.is_ok());
        assert!(is_exceeded(&one.plain(7).await));
        assert!(one.plain(8).await.is_ok());
        let point = || Point { x: 1, y: 2 };
        assert!(one.patterns((1, "b".into()), point(), "t".into()).await.is_ok());
        assert!(is_exceeded(&one.patterns((1, "b".into()), point(), "t".into()).await));
        assert!(one.patterns((1, "c".into()), point(), "t".into()).await.is_ok());
        assert!(one.provided(1).await.is_ok());
        assert!(is_exceeded(&one.provided(1).await));
        let shared = Arc::new(one);
        assert_eq!(shared.clone().inferred("k").await.unwrap(), "ran");
        assert!(is_exceeded(&shared.inferred("k").await));
    })
    .await;
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn returns_a_future(id: u32) -> impl Future<Output = Outcome> {
    async move {
        let _ = id;
        Ok(())
    }
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn returns_a_boxed_future(id: u32) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    Box::pin(async move {
        let _ = id;
        Ok(())
    })
}

#[tokio::test]
async fn functions_that_return_futures_are_limited_when_awaited() {
    alone(async {
        let unused = returns_a_future(1);
        drop(unused);
        assert!(returns_a_future(1).await.is_ok());
        assert!(is_exceeded(&returns_a_future(1).await));
        assert!(returns_a_boxed_future(1).await.is_ok());
        assert!(is_exceeded(&returns_a_boxed_future(1).await));
    })
    .await;
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn generic<T: KeyPart, const N: usize>(id: T, pad: [u8; N]) -> Result<usize, RateLimitError> {
    let _ = id;
    Ok(pad.len())
}

#[tokio::test]
async fn instances_of_a_generic_function_share_a_bucket() {
    alone(async {
        assert_eq!(generic(7_u8, [0; 3]).await.unwrap(), 3);
        assert!(is_exceeded(&generic(7_u64, [0; 4]).await));
        assert!(is_exceeded(&generic("7", [0; 5]).await));
    })
    .await;
}

struct Holder<'a, T> {
    name: &'a str,
    value: T,
}

impl<'a, T: Clone> Holder<'a, T> {
    #[rate_limit(key = "<self.name>:<other>", window = "60s", max = 1)]
    async fn pick(&'a self, other: &str) -> Result<(T, &'a str), RateLimitError> {
        let _ = other;
        Ok((self.value.clone(), self.name))
    }
}

#[rate_limit(key = "<a.0>:<b>:<c>:<name>", window = "60s", max = 1)]
async fn patterns(
    a: (u8, u8),
    (b, _): (u8, u8),
    Point { x: c, y: _ }: Point,
    name: impl AsRef<str> + KeyPart,
    mut unused: Vec<u8>,
    _: u8,
) -> Outcome {
    unused.push(a.1);
    let _ = (name.as_ref(), b, c);
    Ok(())
}

#[rate_limit(key = "<type>", window = "60s", max = 1)]
async fn raw_identifier(r#type: &str) -> Outcome {
    let _ = r#type;
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn with_cfg(id: u32, #[cfg(any())] absent: u32, #[cfg(not(any()))] present: u32) -> Outcome {
    let _ = (id, present);
    Ok(())
}

#[rate_limit(window = "60s", max = 1)]
async fn without_key(unused: u32) -> Outcome {
    let _ = unused;
    Ok(())
}

#[tokio::test]
async fn lifetimes_patterns_raw_names_and_unused_arguments_work() {
    alone(async {
        let holder = Holder { name: "h", value: 5 };
        assert_eq!(holder.pick("x").await.unwrap(), (5, "h"));
        assert!(is_exceeded(&holder.pick("x").await));
        let call = |b| patterns((1, 2), (b, 0), Point { x: 3, y: 4 }, "n", vec![], 0);
        assert!(call(1).await.is_ok());
        assert!(is_exceeded(&call(1).await));
        assert!(call(2).await.is_ok());
        assert!(raw_identifier("t").await.is_ok());
        assert!(is_exceeded(&raw_identifier("t").await));
        assert!(with_cfg(1, 2).await.is_ok());
        assert!(is_exceeded(&with_cfg(1, 3).await));
        assert!(without_key(1).await.is_ok());
        assert!(is_exceeded(&without_key(2).await));
    })
    .await;
}

macro_rules! limited {
    ($name:ident, $template:literal, $max:expr) => {
        #[rate_limit(key = $template, window = "60s", max = $max)]
        async fn $name(email: &str, r#in: u8) -> Outcome {
            let _ = (email, r#in);
            Ok(())
        }
    };
    (method $name:ident, $template:literal) => {
        #[rate_limit(key = $template, window = "60s", max = 1)]
        async fn $name(&self) -> Outcome {
            Ok(())
        }
    };
}

limited!(from_macro, "<email>:<in>", 1);

struct FromMacro(u8);

impl FromMacro {
    limited!(method method, "<self.0>");
}

#[tokio::test]
async fn functions_made_by_macros_are_limited() {
    alone(async {
        assert!(from_macro("a", 1).await.is_ok());
        assert!(is_exceeded(&from_macro("a", 1).await));
        assert!(from_macro("a", 2).await.is_ok());
        assert!(FromMacro(1).method().await.is_ok());
        assert!(is_exceeded(&FromMacro(1).method().await));
        assert!(FromMacro(2).method().await.is_ok());
    })
    .await;
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn items_in_the_body(id: u32) -> Outcome {
    #[allow(unused, reason = "shadows the argument on purpose")]
    fn id_() {}
    fn key() -> u32 {
        1
    }
    #[allow(unused_imports, reason = "shadows on purpose")]
    use std::result::Result::{Err, Ok};
    let _ = id + key();
    Ok(())
}

#[tokio::test]
async fn items_of_the_body_do_not_meet_the_guard() {
    alone(async {
        assert!(items_in_the_body(1).await.is_ok());
        assert!(is_exceeded(&items_in_the_body(1).await));
    })
    .await;
}

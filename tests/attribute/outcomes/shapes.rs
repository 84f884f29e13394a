//! `count` with functions of every shape: it alone puts the body into a block of its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use ratelimit_runtime::rate_limit;

use super::{Failure, Outcome, alone, refusal};

/// One slot, and only failures take it: `fails` says which calls do.
macro_rules! one_failure {
    ($call:expr) => {
        alone(async {
            for _ in 0..3 {
                assert!($call(false).await.is_ok());
            }
            let failed = $call(true).await;
            assert!(matches!(failed, Err(Failure::Wrong)), "the body has run and failed");
            for fails in [false, true] {
                assert!(refusal(&$call(fails).await).is_some(), "the slot is taken");
            }
        })
        .await;
    };
}

fn fail(fails: bool) -> Outcome {
    if fails { Err(Failure::Wrong) } else { Ok(()) }
}

struct Service {
    id: u32,
}

impl Service {
    #[rate_limit(key = "<self.id>", window = "60s", max = 1, count = "err")]
    async fn by_ref(&self, fails: bool) -> Outcome {
        assert_eq!(self.id, 7);
        fail(fails)
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1, count = "err")]
    async fn by_mut(&mut self, fails: bool) -> Outcome {
        self.id += 1;
        tokio::task::yield_now().await;
        self.id -= 1;
        fail(fails)
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1, count = "err")]
    async fn by_value(self, fails: bool) -> Outcome {
        let Self { id } = self;
        assert_eq!(id, 7);
        fail(fails)
    }

    #[rate_limit(key = "<self.id>", window = "60s", max = 1, count = "err")]
    async fn by_arc(self: Arc<Self>, fails: bool) -> Outcome {
        fail(fails)
    }

    /// The closure sees what is `Copy`, also when the body uses it.
    #[rate_limit(key = "<self.id>", window = "60s", max = 1, count = |outcome| self.judge(outcome))]
    async fn judged(&self, fails: bool) -> Outcome {
        self.judge(&Ok(()));
        fail(fails)
    }

    const fn judge(&self, outcome: &Outcome) -> bool {
        self.id == 7 && outcome.is_err()
    }
}

#[tokio::test]
async fn receivers() {
    one_failure!(async |fails| Service { id: 7 }.by_ref(fails).await);
    one_failure!(async |fails| Service { id: 7 }.by_mut(fails).await);
    one_failure!(async |fails| Service { id: 7 }.by_value(fails).await);
    one_failure!(async |fails| Arc::new(Service { id: 7 }).by_arc(fails).await);
    one_failure!(async |fails| Service { id: 7 }.judged(fails).await);
}

#[rate_limit(key = "<name>", window = "60s", max = 1, count = "err")]
async fn moved((name, tail): (String, Vec<u8>), fails: bool) -> Result<String, Failure> {
    drop(tail);
    fail(fails)?;
    Ok(name)
}

#[rate_limit(key = "<name>", window = "60s", max = 1, count = "err")]
async fn borrowed(name: &str, fails: bool) -> Result<&str, Failure> {
    fail(fails)?;
    Ok(name.trim())
}

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn coerced(fails: bool) -> Result<Box<dyn fmt::Display + Send>, Failure> {
    if fails {
        return Err(Failure::Wrong);
    }
    if std::hint::black_box(false) {
        return Ok(Box::new("early"));
    }
    Ok(Box::new(1))
}

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn opaque(fails: bool) -> Result<impl fmt::Display, Failure> {
    fail(fails)?;
    Ok(1)
}

type Aliased<T> = Result<T, Failure>;

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn aliased(fails: bool) -> Aliased<u8> {
    let number: Aliased<u8> = "1".parse().map_err(|_| Failure::Wrong);
    fail(fails)?;
    number
}

#[rate_limit(window = "60s", max = 1, count = |outcome| matches!(outcome, Err(Failure::Wrong)))]
async fn inferred(fails: bool) -> Result<Vec<u8>, Failure> {
    fail(fails)?;
    // What is collected into is known from the return type alone.
    "1 2".split(' ').map(|part| part.parse().map_err(|_| Failure::Wrong)).collect()
}

#[tokio::test]
async fn what_functions_take_and_return() {
    one_failure!(async |fails| moved(("a".to_owned(), vec![1]), fails).await);
    one_failure!(async |fails| borrowed(" a ", fails).await);
    one_failure!(async |fails| coerced(fails).await);
    one_failure!(async |fails| opaque(fails).await);
    one_failure!(async |fails| aliased(fails).await);
    one_failure!(async |fails| inferred(fails).await);
}

#[rate_limit(window = "60s", max = 1, count = "err")]
fn future(fails: bool) -> impl Future<Output = Outcome> + Send {
    let wanted = fails;
    async move { fail(wanted) }
}

#[rate_limit(window = "60s", max = 1, count = "err")]
fn boxed(fails: bool) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    Box::pin(async move {
        fail(fails)?;
        Ok(())
    })
}

type Hidden = Pin<Box<dyn Future<Output = Outcome> + Send>>;

#[rate_limit(window = "60s", max = 1, count = "err")]
fn hidden(fails: bool) -> Hidden {
    Box::pin(async move { fail(fails) })
}

#[async_trait]
trait Login {
    async fn log_in(&self, who: (u8, &str), fails: bool) -> Outcome;

    #[rate_limit(window = "60s", max = 1, count = |outcome| self.counts(outcome))]
    async fn provided(&self, fails: bool) -> Outcome {
        fail(fails)
    }

    fn counts(&self, outcome: &Outcome) -> bool {
        outcome.is_err()
    }
}

#[async_trait]
impl Login for Service {
    #[rate_limit(key = "<self.id>:<name>", window = "60s", max = 1, count = "err")]
    async fn log_in(&self, (number, name): (u8, &str), fails: bool) -> Outcome {
        assert_eq!((number, name, self.id), (1, "a", 7));
        if fails {
            return fail(true);
        }
        Ok(())
    }
}

#[tracing::instrument]
#[rate_limit(window = "60s", max = 1, count = "err")]
async fn instrumented_above(fails: bool) -> Outcome {
    fail(fails)
}

#[rate_limit(window = "60s", max = 1, count = "err")]
#[tracing::instrument]
async fn instrumented_below(fails: bool) -> Outcome {
    fail(fails)
}

macro_rules! make {
    ($name:ident($argument:ident) $body:block) => {
        #[rate_limit(window = "60s", max = 1, count = "err")]
        async fn $name($argument: bool) -> Outcome $body
    };
}

make!(made_by_a_macro(fails) {
    fail(fails)?;
    Ok(())
});

#[tokio::test]
async fn kinds_of_functions() {
    one_failure!(future);
    one_failure!(boxed);
    one_failure!(hidden);
    one_failure!(async |fails| Service { id: 7 }.log_in((1, "a"), fails).await);
    one_failure!(async |fails| Service { id: 7 }.provided(fails).await);
    one_failure!(instrumented_above);
    one_failure!(instrumented_below);
    one_failure!(made_by_a_macro);
}

#[rate_limit(window = "60s", max = 1, count = "err", on_refused = |error| Err(error.to_string()))]
async fn refused_by_hand(fails: bool) -> Result<(), String> {
    fail(fails).map_err(|_| "failed".to_owned())
}

#[rate_limit(window = "60s", max = 1, count = |number| *number == 0, on_refused = |_| 99)]
async fn no_result(number: u8) -> u8 {
    number
}

#[tokio::test]
async fn on_refused() {
    alone(async {
        assert!(refused_by_hand(false).await.is_ok());
        assert_eq!(refused_by_hand(true).await.unwrap_err(), "failed");
        assert!(refused_by_hand(true).await.unwrap_err().contains("too many"));
        assert_eq!([no_result(1).await, no_result(0).await, no_result(1).await], [1, 0, 99]);
    })
    .await;
}

//! Functions that return a future: every way out of an accepted shape is limited. Inner attributes,
//! of the function and of its async block, are kept.

use std::error::Error;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use ratelimit_runtime::{RateLimitError, rate_limit};

use super::{Outcome, alone, is_exceeded};

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn plain(id: u32) -> impl Future<Output = Outcome> + Send + 'static {
    async move {
        if id == 0 {
            return Ok(());
        }
        Ok(())
    }
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn boxed(id: u32) -> BoxFuture<'static, Outcome> {
    Box::pin(async move { Ok(()) })
}

/// Projects have aliases of their own under this name, whose output is more than the last type.
mod own {
    use std::pin::Pin;

    pub(super) type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn of_an_alias(id: u32) -> own::BoxFuture<(), RateLimitError> {
    Box::pin(async move { Ok(()) })
}

#[rate_limit(key = "<text>", window = "60s", max = 1, count = Result::is_ok)]
fn counted(text: &'static str) -> own::BoxFuture<u32, Box<dyn Error + Send + Sync>> {
    Box::pin(async move { Ok(text.parse()?) })
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn returned(id: u32) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    Box::pin(async move { Ok(()) })
}

#[async_trait::async_trait]
trait Mail: Sync {
    #[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
    async fn send(&self, id: u32) -> Outcome {
        #![allow(unused_variables, reason = "the attribute is the point")]
        //! Inner documentation.
        let unused = id;
        Ok(())
    }
}

struct Mailer;

impl Mail for Mailer {}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn of_the_function(id: u32) -> impl Future<Output = Outcome> {
    #![allow(unused_variables, reason = "the attribute is the point")]
    //! Inner documentation.
    async move {
        let unused = id;
        Ok(())
    }
}

#[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
fn of_the_block(id: u32) -> Pin<Box<dyn Future<Output = Outcome>>> {
    Box::pin(
        async move {
            #![allow(unused_variables, reason = "the attribute is the point")]
            let unused = id;
            Ok(())
        },
    )
}

#[tokio::test]
async fn every_accepted_shape_is_limited() {
    one_each!(plain(0), plain(1));
    one_each!(boxed(1), boxed(2));
    one_each!(of_an_alias(1), of_an_alias(2));
    one_each!(returned(1), returned(2));
    one_each!(Mailer.send(1), Mailer.send(2));
    one_each!(of_the_function(1), of_the_function(2));
    one_each!(of_the_block(1), of_the_block(2));
}

#[tokio::test]
async fn the_outcome_of_a_future_behind_an_alias_is_counted() {
    alone(async {
        assert!(counted("x").await.is_err());
        assert_eq!(counted("1").await.ok(), Some(1));
        assert!(counted("1").await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_future_that_is_dropped_unpolled_charges_nothing() {
    alone(async {
        drop(returned(1));
        assert!(returned(1).await.is_ok());
        assert!(is_exceeded(&returned(1).await));
    })
    .await;
}

#[allow(
    clippy::panic,
    clippy::diverging_sub_expression,
    reason = "there is no other way to refuse"
)]
#[rate_limit(window = "60s", max = 1, on_refused = |error: RateLimitError| panic!("{error}"))]
async fn never_returns() -> ! {
    resume_unwind(Box::new("ran"))
}

#[tokio::test]
async fn a_function_that_never_returns_is_limited() {
    alone(async {
        let ran = AssertUnwindSafe(never_returns()).catch_unwind().await;
        assert!(
            ran.err()
                .is_some_and(|panic| panic.downcast_ref() == Some(&"ran"))
        );
        let refused = AssertUnwindSafe(never_returns()).catch_unwind().await;
        assert!(
            refused
                .err()
                .is_some_and(|panic| panic.downcast_ref::<String>().is_some())
        );
    })
    .await;
}

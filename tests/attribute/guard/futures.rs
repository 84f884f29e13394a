//! Functions that return a future: whatever shape is accepted, each way out of it asks.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, Ready};
use ratelimit_runtime::rate_limit;
use tracing::Instrument as _;

use super::{Outcome, one_each};

#[rate_limit(key = "<email>", window = "60s", max = 1)]
fn prepared(email: &str, state: &Arc<String>) -> impl Future<Output = Outcome> + Send + 'static {
    const LONGEST: usize = 80;
    let email = email.to_owned();
    let state = Arc::clone(state);
    let length = state.len().min(LONGEST);
    async move {
        assert!(email.len() + length > 0);
        Ok(())
    }
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn boxed(id: u32) -> BoxFuture<'static, Outcome> {
    async move { Ok(()) }.instrument(tracing::info_span!("boxed", id)).boxed()
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn returned(id: u32) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    #[allow(clippy::needless_return, reason = "the shape is the point")]
    return Box::pin(async move { Ok(()) });
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn either(id: u32) -> Either<Pin<Box<dyn Future<Output = Outcome> + Send>>, Ready<Outcome>> {
    Either::Left(Box::pin(async move {
        if id == 0 {
            return Ok(());
        }
        Ok(())
    }))
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn in_a_block(id: u32) -> impl Future<Output = Outcome> {
    let wanted = id;
    {
        let again = &wanted;
        let again = *again;
        async move {
            assert_eq!(again, id);
            Ok(())
        }
    }
}

struct Request {
    email: String,
    subject: String,
}

/// The local is the argument's own, so it may have its name.
#[rate_limit(key = "<email>:<id>", window = "60s", max = 1)]
fn taken_apart(email: &str, id: u32, request: Request) -> impl Future<Output = Outcome> + use<> {
    let Request { email: sender, subject } = request;
    let (email, title) = (email.to_owned(), format!("{subject} {id}"));
    async move {
        assert!(!email.is_empty() && !sender.is_empty() && !title.is_empty());
        Ok(())
    }
}

#[tokio::test]
async fn every_accepted_shape_is_limited() {
    let state = Arc::new("state".to_owned());
    one_each(async || prepared("a", &state).await, async || prepared("b", &state).await).await;
    one_each(async || boxed(1).await, async || boxed(2).await).await;
    one_each(async || returned(1).await, async || returned(2).await).await;
    one_each(async || either(0).await, async || either(1).await).await;
    one_each(async || in_a_block(1).await, async || in_a_block(2).await).await;
    let request = || Request { email: "c".to_owned(), subject: "s".to_owned() };
    one_each(async || taken_apart("a", 1, request()).await, async || taken_apart("b", 1, request()).await).await;
}

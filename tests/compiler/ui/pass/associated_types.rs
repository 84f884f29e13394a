#![deny(warnings)]
#![allow(clippy::elidable_lifetime_names, clippy::manual_async_fn, reason = "the shapes are the point")]

//! Generic associated types, precise captures, higher-ranked bounds.

use std::fmt::Display;

use ratelimit_runtime::{KeyPart, RateLimitError, rate_limit};

trait Lender {
    type Item<'a>: KeyPart + Send
    where
        Self: 'a;

    fn lend(&self) -> Self::Item<'_>;

    #[rate_limit(key = "<self.lend()>", window = "60s", max = 1, name = "lenders")]
    async fn provided(&self) -> Result<(), RateLimitError>
    where
        Self: Sync,
    {
        Ok(())
    }

    #[rate_limit(key = "<item>", window = "60s", max = 1, name = "items")]
    async fn given<'a>(&'a self, item: Self::Item<'a>) -> Result<(), RateLimitError>
    where
        Self: Sync,
    {
        Ok(())
    }
}

struct Owner(String);

impl Lender for Owner {
    type Item<'a> = &'a str;

    fn lend(&self) -> &str {
        &self.0
    }
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn precise<'a, T: Display>(id: &'a str, shown: T) -> Result<impl Display + use<'a, T>, RateLimitError> {
    Ok(format!("{id}{shown}"))
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
fn precise_future<'a, T: Send + 'a>(id: u32, _kept: &'a T) -> impl Future<Output = Result<u32, RateLimitError>> + use<'a, T> {
    async move { Ok(id) }
}

#[rate_limit(key = "<text>", window = "60s", max = 1)]
async fn higher_ranked<F>(text: &str, f: F) -> Result<usize, RateLimitError>
where
    F: for<'a> Fn(&'a str) -> &'a str,
{
    Ok(f(text).len())
}

#[rate_limit(key = "<N>", window = "60s", max = 1)]
async fn named_like_a_constant<const M: usize>(#[allow(non_snake_case, reason = "the name is the point")] N: usize) -> Result<[u8; M], RateLimitError> {
    Ok([0; M])
}

#[tokio::test]
async fn runs() {
    let owner = Owner("a".to_owned());
    assert!(owner.provided().await.is_ok());
    assert!(owner.provided().await.is_err());
    assert!(owner.given("b").await.is_ok());
    assert!(owner.given("b").await.is_err());
    assert!(precise("a", 1).await.is_ok());
    assert!(precise("a", 1).await.is_err());
    assert!(precise_future(1, &"kept").await.is_ok());
    assert!(precise_future(1, &"kept").await.is_err());
    assert!(higher_ranked("a", |text| text).await.is_ok());
    assert!(higher_ranked("a", |text| text).await.is_err());
    assert!(named_like_a_constant::<1>(1).await.is_ok());
    assert!(named_like_a_constant::<1>(1).await.is_err());
}

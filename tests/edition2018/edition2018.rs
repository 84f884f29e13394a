//! A user in edition 2018, where `async` is a keyword but closures capture all of a variable.
#![allow(
    clippy::manual_async_fn,
    clippy::unused_self,
    reason = "the shapes are the point"
)]

use std::future::Future;
use std::pin::Pin;

use ratelimit_runtime::{Key, KeyPart, RateLimitError, RateLimiter, key, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[derive(KeyPart)]
struct Account {
    id: u32,
    kind: Kind,
}

#[derive(KeyPart)]
enum Kind {
    Guest,
    User { name: String },
}

/// `gen` and `dyn_` are names here.
#[rate_limit(key = "<gen>:<account>", window = "60s", max = dyn_)]
async fn free(gen: u8, account: &Account, dyn_: u8) -> Outcome {
    Ok(())
}

macro_rules! id_of {
    ($service:expr) => {
        $service.id
    };
}

struct Service {
    id: u32,
    calls: u32,
    limiter: RateLimiter,
}

impl Service {
    #[rate_limit(key = id_of!(self), window = "60s", max = 1, limiter = self.limiter)]
    async fn method(&mut self) -> Outcome {
        self.calls += 1;
        Ok(())
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
    fn future<'a>(&'a self, id: &'a str) -> impl Future<Output = Outcome> + 'a {
        async move {
            #![allow(unused_variables, reason = "the attribute is the point")]
            let unused = id;
            Ok(())
        }
    }

    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    fn boxed(id: u32) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(async move { Ok(()) })
    }
}

#[async_trait::async_trait]
trait Mail {
    async fn send(&self, to: (u32, &str)) -> Outcome;
}

#[async_trait::async_trait]
impl Mail for Service {
    #[rate_limit(key = "<tenant>:<email>", window = "60s", max = 1)]
    #[rate_limit(window = "60s", max = 100, count = "err")]
    async fn send(&self, (tenant, email): (u32, &str)) -> Outcome {
        Ok(())
    }
}

#[tokio::test]
async fn the_attribute_works_in_edition_2018() {
    let limiter = RateLimiter::memory();
    let mut service = Service {
        id: 1,
        calls: 0,
        limiter: limiter.clone(),
    };
    let calls = async {
        for kind in [
            Kind::Guest,
            Kind::User {
                name: "a".to_owned(),
            },
        ] {
            let account = Account { id: 1, kind };
            assert!(free(1, &account, 1).await.is_ok());
            assert!(free(1, &account, 1).await.is_err());
        }
        assert!(service.method().await.is_ok());
        assert!(service.method().await.is_err());
        assert_eq!(service.calls, 1);
        assert!(service.future("a").await.is_ok());
        assert!(service.future("a").await.is_err());
        assert!(Service::boxed(1).await.is_ok());
        assert!(Service::boxed(1).await.is_err());
        assert!(service.send((1, "a")).await.is_ok());
        assert!(service.send((1, "a")).await.is_err());
    };
    limiter.scope(calls).await;
    let gen = 7;
    assert_eq!(key!("<gen>"), Key::of(&7));
}

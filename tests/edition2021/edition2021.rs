//! A user in edition 2021 who calls the runtime crate something else.
#![allow(clippy::unused_self, reason = "the shapes are the point")]

use limits::{FromRateLimitError, Key, KeyPart, RateLimitError, RateLimiter, key, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[derive(KeyPart)]
#[key(crate = ::limits)]
struct Account<T> {
    id: T,
    kind: Kind,
}

#[derive(KeyPart)]
#[key(crate = "::limits")]
enum Kind {
    Guest,
    User { name: String },
}

#[derive(KeyPart)]
#[key(crate = ::limits)]
struct Id(u32);

/// `gen` is a name here, and a keyword in edition 2024.
#[rate_limit(key = "<gen>:<account>", window = "60s", max = try_, crate = ::limits)]
async fn free(gen: u8, account: &Account<u32>, try_: u8) -> Outcome {
    Ok(())
}

struct Reply(bool);

impl FromRateLimitError for Reply {
    fn from_rate_limit_error(_: RateLimitError) -> Self {
        Self(false)
    }
}

struct Service {
    limiter: RateLimiter,
}

impl Service {
    #[rate_limit(key = "<id>", window = "60s", max = 1, limiter = self.limiter, crate = ::limits)]
    #[rate_limit(window = "60s", max = 100, crate = ::limits)]
    async fn method(&self, id: Id) -> Reply {
        Reply(true)
    }
}

#[async_trait::async_trait]
trait Mail {
    async fn send(&self, to: (u32, &str)) -> Outcome;
}

#[async_trait::async_trait]
impl Mail for Service {
    #[rate_limit(
        key = "<tenant>:<email>", window = "60s", max = 1, limiter = self.limiter,
        crate = "::limits"
    )]
    async fn send(&self, (tenant, email): (u32, &str)) -> Outcome {
        Ok(())
    }
}

mod re_export {
    pub(crate) use limits as inner;
}

#[rate_limit(key = "<id>", window = "60s", max = 1, crate = crate::re_export::inner)]
async fn by_a_path_in_this_crate(id: u32) -> Outcome {
    Ok(())
}

/// As a library would wrap the attribute: its users have no dependency on the runtime crate.
macro_rules! limited {
    ($name:ident) => {
        #[rate_limit(key = "<gen>", window = "60s", max = 1, crate = $crate::re_export::inner)]
        async fn $name(gen: u32) -> Outcome {
            Ok(())
        }
    };
}

limited!(by_dollar_crate);

#[tokio::test]
async fn the_attribute_works_under_another_name_of_the_crate() {
    let limiter = RateLimiter::memory();
    let service = Service {
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
        assert!(service.method(Id(1)).await.0);
        assert!(!service.method(Id(1)).await.0);
        assert!(service.method(Id(2)).await.0);
        assert!(service.send((1, "a")).await.is_ok());
        assert!(service.send((1, "a")).await.is_err());
        assert!(by_a_path_in_this_crate(1).await.is_ok());
        assert!(by_a_path_in_this_crate(1).await.is_err());
        assert!(by_dollar_crate(1).await.is_ok());
        assert!(by_dollar_crate(1).await.is_err());
    };
    limiter.scope(calls).await;
    let gen = Id(7);
    assert_eq!(key!(crate = ::limits, "<gen>"), Key::of(&7));
    assert_eq!(
        key!(crate = crate::re_export::inner, "<gen.0>"),
        Key::of("7")
    );
}

mod drop_order {
    //! In edition 2021 the temporaries of the last expression outlive the locals. The attribute
    //! must not change that.

    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static DROPPED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    struct Loud(&'static str);

    impl Loud {
        fn get(&self) -> u8 {
            1
        }
    }

    impl Drop for Loud {
        fn drop(&mut self) {
            DROPPED.with_borrow_mut(|dropped| dropped.push(self.0));
        }
    }

    type Outcome = Result<u8, RateLimitError>;

    #[allow(clippy::unused_async, reason = "what it is without the attribute")]
    async fn plain() -> Outcome {
        let _local = Loud("local");
        Ok(Loud("temporary").get())
    }

    #[rate_limit(window = "60s", max = 100, crate = ::limits)]
    async fn limited() -> Outcome {
        let _local = Loud("local");
        Ok(Loud("temporary").get())
    }

    #[rate_limit(window = "60s", max = 100, count = "err", crate = ::limits)]
    async fn counted() -> Outcome {
        let _local = Loud("local");
        Ok(Loud("temporary").get())
    }

    #[tokio::test]
    async fn drops_are_in_the_order_of_the_bare_function() {
        let order = || DROPPED.with_borrow_mut(std::mem::take);
        RateLimiter::memory()
            .scope(async {
                assert!(plain().await.is_ok());
                let expected = order();
                assert_eq!(expected, ["local", "temporary"]);
                assert!(limited().await.is_ok());
                assert_eq!(order(), expected);
                assert!(counted().await.is_ok());
                assert_eq!(order(), expected);
            })
            .await;
    }
}

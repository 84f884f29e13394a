#![deny(warnings)]

mod inside {
#![no_implicit_prelude]

use ::ratelimit_runtime::{KeyPart, RateLimitError, key, rate_limit};

type Outcome = ::std::result::Result<(), RateLimitError>;

#[derive(KeyPart)]
pub(super) struct Id(pub(super) u32);

#[derive(KeyPart)]
pub(super) enum Kind {
    Guest,
    User { id: u32 },
}

#[rate_limit(key = "<id>:<kind>", window = "60s", max = 1, when = true)]
pub(super) async fn send(id: Id, kind: Kind) -> Outcome {
    ::std::result::Result::Ok(())
}

#[rate_limit(window = "60s", max = 1, count = "ok")]
#[rate_limit(window = "60s", max = 5)]
pub(super) async fn counted() -> Outcome {
    ::std::result::Result::Ok(())
}

pub(super) fn keys() -> [::ratelimit_runtime::Key; 2] {
    let id = 1;
    [key!("<id>"), key!("{id}")]
}
}

use inside::{Id, Kind, counted, keys, send};

#[tokio::test]
async fn runs() {
    assert!(send(Id(1), Kind::User { id: 1 }).await.is_ok());
    assert!(send(Id(1), Kind::User { id: 1 }).await.is_err());
    assert!(send(Id(1), Kind::Guest).await.is_ok());
    assert!(counted().await.is_ok());
    assert!(counted().await.is_err());
    let [one, other] = keys();
    assert_eq!(one, other);
}

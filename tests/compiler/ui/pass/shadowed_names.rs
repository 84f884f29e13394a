#![deny(warnings)]
#![allow(dead_code, non_camel_case_types, non_snake_case, reason = "the names are the point")]

//! Names of the prelude and of the expansion that mean something else here.

use ratelimit_runtime::{KeyPart, RateLimitError, key, rate_limit};

type Outcome = std::result::Result<(), RateLimitError>;

struct Option;
struct Some;
struct None;
struct Result;
struct Ok;
struct Err;
struct Box;
struct Vec;
struct String;
struct Send;
struct Rule;
struct CheckBuilder;
struct bool;
struct u64;

mod core {}
mod std_ {}
mod ratelimit_runtime_ {}

fn drop(_: Option) {}
fn run(_: Rule) {}

#[derive(KeyPart)]
struct Id(u32);

#[derive(KeyPart)]
enum Kind {
    Id(Id),
    None,
}

#[rate_limit(key = "<id>:<kind>", window = "60s", max = 1, when = true, shadow = false)]
async fn send(id: Id, kind: Kind) -> Outcome {
    std::result::Result::Ok(())
}

#[rate_limit(key = "<run>", window = "60s", max = 1, count = "ok")]
async fn counted(run: &str) -> Outcome {
    std::result::Result::Ok(())
}

struct Service<__RatelimitHere>(__RatelimitHere);

impl<__RatelimitHere: KeyPart> Service<__RatelimitHere> {
    #[rate_limit(key = "<self.0>:<__ratelimit_check>", window = "60s", max = 1)]
    async fn send(&self, __ratelimit_check: u32) -> Outcome {
        std::result::Result::Ok(())
    }
}

#[tokio::test]
async fn runs() {
    assert!(send(Id(1), Kind::Id(Id(1))).await.is_ok());
    assert!(send(Id(1), Kind::Id(Id(1))).await.is_err());
    assert!(send(Id(1), Kind::None).await.is_ok());
    assert!(counted("a").await.is_ok());
    assert!(counted("a").await.is_err());
    assert!(Service(1).send(1).await.is_ok());
    assert!(Service(1).send(1).await.is_err());
    assert!(Service(2).send(1).await.is_ok());
    let id = Id(1);
    assert!(key!("<id>") == key!("<id.0>"));
}

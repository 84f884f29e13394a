#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

use ratelimit_runtime::KeyPart;

#[derive(KeyPart)]
struct Id<'a>(&'a str);

#[derive(KeyPart)]
struct Account<T> {
    tenant: Option<T>,
    r#type: Kind,
}

#[derive(KeyPart)]
enum Kind {
    Guest,
    User { id: u32, name: String },
    Robot(u8, u8),
}

#[rate_limit(key = "<id>:<account>:<kind>:<robot>", window = "60s", max = 1)]
async fn send(id: Id<'_>, account: &Account<u32>, kind: Kind, robot: Kind) -> Result<(), RateLimitError> {
    Ok(())
}

async fn call() -> Result<(), RateLimitError> {
    let account = Account { tenant: Some(1), r#type: Kind::Guest };
    send(Id("a"), &account, Kind::User { id: 1, name: String::new() }, Kind::Robot(1, 2)).await
}

#[tokio::test]
async fn runs() {
    assert!(call().await.is_ok());
    assert!(call().await.is_err());
}

#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

macro_rules! limited {
    ($(#[$attribute:meta])* $name:ident($($argument:ident: $ty:ty),*), $key:literal, $window:expr, $max:expr, $body:block) => {
        $(#[$attribute])*
        #[rate_limit(key = $key, window = $window, max = $max)]
        async fn $name($($argument: $ty),*) -> Result<(), RateLimitError> $body
    };
}

limited!(
    /// Sends.
    send(tenant: u32, email: &str), "<tenant>:<email>", "60s", 1, { Ok(()) }
);

macro_rules! method {
    ($name:ident, $key:literal) => {
        #[rate_limit(key = $key, window = "60s", max = 1)]
        async fn $name(&self) -> Result<(), RateLimitError> {
            Ok(())
        }
    };
}

struct Mailer(u32);

impl Mailer {
    method!(send, "<self.0>");
}

async fn both() -> Result<(), RateLimitError> {
    send(1, "a").await?;
    Mailer(1).send().await
}

#[tokio::test]
async fn runs() {
    assert!(both().await.is_ok());
    assert!(both().await.is_err());
}

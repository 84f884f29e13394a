//! Limits on methods, without a web framework: on `self`, and behind a trait object.
//!
//! ```text
//! cargo run --example service_method
//! ```

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the terminal, which checks itself"
)]

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use ratelimit_runtime::{Limit, RateLimitError, RateLimiter, Rule, key, rate_limit};

struct User {
    id: u64,
}

#[async_trait]
trait Notifier: Send + Sync {
    async fn notify(&self, user: &User) -> Result<String, NotifyError>;
}

struct Tenant {
    name: String,
    limiter: RateLimiter,
}

static EXPORT: Rule = Rule::new("export", Limit::per_day(3));

impl Tenant {
    /// Three exports a day for each tenant: the key is a field of `self`, and so is the limiter.
    #[rate_limit(
        name = "export", limiter = self.limiter, key = "<self.name>", window = "1d", max = 3
    )]
    async fn export(&self) -> Result<String, NotifyError> {
        Ok(format!("export of {}", self.name))
    }
}

#[async_trait]
impl Notifier for Tenant {
    /// Two messages an hour for each user of each tenant. The attribute goes on the method, not on
    /// the trait.
    #[rate_limit(limiter = self.limiter, key = "<self.name>/<user.id>", window = "1h", max = 2)]
    async fn notify(&self, user: &User) -> Result<String, NotifyError> {
        Ok(format!("{} told user {}", self.name, user.id))
    }
}

/// The attribute needs an error type that implements `From<RateLimitError>`.
#[derive(Debug)]
enum NotifyError {
    TooMany { retry_after: Duration },
    Limiter(RateLimitError),
}

impl From<RateLimitError> for NotifyError {
    fn from(error: RateLimitError) -> Self {
        match error.retry_after() {
            Some(retry_after) => Self::TooMany { retry_after },
            None => Self::Limiter(error),
        }
    }
}

impl fmt::Display for NotifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { retry_after } => write!(f, "too many, try again in {retry_after:.0?}"),
            Self::Limiter(error) => write!(f, "not checked: {error}"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), NotifyError> {
    let limiter = RateLimiter::memory();
    let acme = Tenant {
        name: "acme".to_owned(),
        limiter: limiter.clone(),
    };
    let globex = Tenant {
        name: "globex".to_owned(),
        limiter,
    };

    for _ in 0..3 {
        println!("{}", acme.export().await?);
    }
    let refused = acme.export().await.unwrap_err();
    println!("the fourth of a day: {refused}");
    assert!(
        matches!(refused, NotifyError::TooMany { retry_after } if retry_after <= Duration::from_secs(86_400))
    );
    println!("{}", globex.export().await?);

    let notifier: &dyn Notifier = &acme;
    let alice = User { id: 1 };
    for _ in 0..2 {
        println!("{}", notifier.notify(&alice).await?);
    }
    let refused = notifier.notify(&alice).await.unwrap_err();
    println!("the third of an hour: {refused}");
    assert!(matches!(refused, NotifyError::TooMany { .. }));
    println!("{}", notifier.notify(&User { id: 2 }).await?);

    // By hand, as an operator does it: a rule with the attribute's name, limit and template has the
    // attribute's bucket.
    acme.limiter.reset(&EXPORT, &key!("<acme.name>")).await?;
    println!("{}, after a reset", acme.export().await?);
    Ok(())
}

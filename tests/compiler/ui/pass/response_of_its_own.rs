#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

use ratelimit_runtime::FromRateLimitError;

enum Reply {
    Sent,
    Later,
}

impl FromRateLimitError for Reply {
    fn from_rate_limit_error(_: RateLimitError) -> Self {
        Self::Later
    }
}

impl Reply {
    fn is_ok(&self) -> bool {
        matches!(self, Self::Sent)
    }

    fn is_err(&self) -> bool {
        matches!(self, Self::Later)
    }
}

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn send(email: &str) -> Reply {
    Reply::Sent
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
}

use async_trait::async_trait;
use ratelimit_runtime::{RateLimitError, rate_limit};

/// As a framework hands it to a method of a service.
pub struct Request<T> {
    message: T,
}

impl<T> Request<T> {
    pub fn get_ref(&self) -> &T {
        &self.message
    }

    pub fn into_inner(self) -> T {
        self.message
    }
}

pub struct Letter {
    pub email: String,
}

#[async_trait]
pub trait Post {
    async fn send(&self, request: Request<Letter>) -> Result<(), RateLimitError>;
}

pub struct Office;

#[async_trait]
impl Post for Office {
    #[rate_limit(key = "<request.email>", window = "60s", max = 3)]
    async fn send(&self, request: Request<Letter>) -> Result<(), RateLimitError> {
        drop(request.into_inner());
        Ok(())
    }
}

fn main() {}

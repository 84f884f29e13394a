use ratelimit_runtime::{RateLimitError, rate_limit};

pub struct User {
    id: u32,
    seen: std::time::Instant,
}

#[rate_limit(key = "<user.id>:<user.seen>", window = "60s", max = 3)]
pub async fn send(user: &User) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<user.id>:<user.naem>", window = "60s", max = 3)]
pub async fn again(user: &User) -> Result<(), RateLimitError> {
    Ok(())
}

impl User {
    #[rate_limit(key = "<id>:<self.seen>", window = "60s", max = 3)]
    pub async fn method(&self, id: u32) -> Result<(), RateLimitError> {
        Ok(())
    }
}

fn main() {}

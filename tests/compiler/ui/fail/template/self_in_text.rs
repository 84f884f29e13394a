use ratelimit_runtime::{RateLimitError, rate_limit};

pub struct Service {
    pub tenant: u32,
}

impl Service {
    #[rate_limit(key = "self.tenant", window = "60s", max = 3)]
    pub async fn send(&self) -> Result<(), RateLimitError> {
        let _ = self.tenant;
        Ok(())
    }
}

fn main() {}

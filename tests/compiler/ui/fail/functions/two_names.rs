use ratelimit_runtime::rate_limit as limit;
use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;


#[limit(key = "<id>", window = "60s", max = 1)]
#[limit(key = "<id>", window = "1d", max = 20)]
async fn twice(id: u32) -> Outcome { Ok(()) }

#[rate_limit(key = "<id>", window = "60s", max = 1, name = "minute")]
#[limit(key = "<id>", window = "1d", max = 20, name = "day")]
async fn below(id: u32) -> Outcome { Ok(()) }

#[limit(key = "<id>", window = "60s", max = 1, count = "err")]
#[limit(key = "<id>", window = "1d", max = 20, name = "day")]
async fn counted(id: u32) -> Outcome { Ok(()) }

#[async_trait::async_trait]
trait Send {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    #[limit(key = "<id>", window = "1d", max = 20)]
    async fn send(&self, id: u32) -> Outcome { Ok(()) }
}

// The second has a mistake, and the first does not know it by this path.
#[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3)]
#[limits::rate_limit(key = "<email>", windw = "1d", max = 20)]
async fn by_a_path(email: &str) -> Result<(), RateLimitError> { Ok(()) }

mod limits {
    pub use ratelimit_runtime::rate_limit;
}

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;


struct Mailer;

#[rate_limit(window = "60s", max = 3)]
impl Mailer {
    async fn send(&self) -> Outcome { Ok(()) }
}

#[rate_limit(window = "60s", max = 3)]
unsafe impl Send for Mailer {}

#[async_trait::async_trait]
#[rate_limit(window = "60s", max = 3)]
impl Clone for Mailer {
    fn clone(&self) -> Self { Self }
}

#[rate_limit(window = "60s", max = 3)]
trait Post {
    #[rate_limit(key = "<email>", window = "60s", max = 3)]
    async fn send(&self, email: &str) -> Outcome;
}

trait Fax {
    #[rate_limit(key = "<number>", window = "60s", max = 3)]
    async fn method(&self, number: &str) -> Outcome;

    #[rate_limit(key = "<number>", window = "60s", max = 3)]
    async fn function(number: &str) -> Outcome;
}

#[rate_limit(window = "60s", max = 3)]
struct Office;

#[rate_limit(window = "60s", max = 3)]
const LIMIT: u32 = 3;

#[rate_limit(window = "60s", max = 3)]
unsafe extern "C" {
    safe fn abs(number: i32) -> i32;
}

#[rate_limit(window = "60s", max = 3)]
fn not_async(email: &str) -> Outcome { Ok(()) }

#[rate_limit(window = "60s", max = 3)]
const fn constant() -> Outcome { Ok(()) }

#[tokio::main]
#[rate_limit(window = "60s", max = 1)]
async fn main() -> Outcome { Ok(()) }

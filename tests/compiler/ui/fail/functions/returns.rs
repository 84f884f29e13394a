use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;


#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn no_return_type(email: &str) {}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn returns_unit(email: &str) -> () {}

#[rate_limit(key = "<email>", policy = "login", shadow)]
async fn policy_may_end_shadow(email: &str) {}

#[rate_limit(window = "60s", max = 3)]
async fn never_returns() -> ! { loop {} }

#[rate_limit(key = "<email>", policy = "login", shadow)]
async fn policy_may_end_shadow_of_what_never_returns(email: &str) -> ! { loop {} }

#[async_trait::async_trait]
trait Mailer {
    #[rate_limit(key = "<email>", window = "60s", max = 3)]
    async fn returns_nothing(&self, email: &str) {}

    #[rate_limit(key = "<self.id>:<tenant>:<emial>", window = "60s", max = 3)]
    async fn misspelt(&self, (tenant, email): (u32, &str)) -> Outcome { Ok(()) }
}

fn main() {}

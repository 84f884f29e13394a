use ratelimit_runtime::{Limit, Policy, RateLimitError, rate_limit};

#[rate_limit(key = "<email>", policy = plan)]
async fn send(email: &str, plan: Option<&str>) -> Result<(), RateLimitError> {
    let _ = (email, plan, Policy::new(Limit::per_minute(3)));
    Ok(())
}

fn main() {
    let _ = send("a", None);
}

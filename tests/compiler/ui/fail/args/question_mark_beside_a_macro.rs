use ratelimit_runtime::{RateLimitError, rate_limit};

macro_rules! upper {
    ($name:ident) => {
        $name.to_uppercase()
    };
}

fn tenant(_: &str) -> Result<u32, RateLimitError> {
    Ok(1)
}

#[rate_limit(key = (upper!(email), tenant(email)?), window = "60s", max = 3)]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let email = "a";
    let _ = (tenant(email), upper!(email));
}

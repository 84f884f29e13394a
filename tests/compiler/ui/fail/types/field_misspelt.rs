use ratelimit_runtime::{RateLimitError, rate_limit};

struct User {
    name: String,
}

#[rate_limit(key = "<user.nmae>", window = "60s", max = 3)]
async fn send(user: &User) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}

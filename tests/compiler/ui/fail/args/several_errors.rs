use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(kye = "<email>", window = "60", max = 0, name = "", timeout = "2h", cost = 0)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

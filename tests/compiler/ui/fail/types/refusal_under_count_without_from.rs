use ratelimit_runtime::{rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(email: &str) -> Result<(), std::fmt::Error> {
    Ok(())
}

fn main() {
    let _ = send;
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<list[0]>", window = "60s", max = 3)]
async fn send(list: &[u8]) -> Result<(), RateLimitError> {
    let _ = list;
    Ok(())
}

fn main() {
    let _ = send(&[1]);
}

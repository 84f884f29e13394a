use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<addr>", window = "60s", max = 3)]
async fn send(addr: std::net::SocketAddr) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<zz>", window = "60s", max = 3)]
async fn send(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8) -> Result<(), RateLimitError> {
    let _ = (a, b, c, d, e, f, g, h, i);
    Ok(())
}

fn main() {
    let _ = send(1, 2, 3, 4, 5, 6, 7, 8, 9);
}

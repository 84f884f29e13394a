use ratelimit_runtime::{RateLimitError, rate_limit};

fn charge(_: u32) -> u32 {
    0
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
pub fn send(id: u32) -> impl Future<Output = Result<(), RateLimitError>> {
    charge(id);
    let change = charge(id);
    async move {
        let _ = change;
        Ok(())
    }
}

fn main() {}

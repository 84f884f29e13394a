use ratelimit_runtime::rate_limit;

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = 429)]
async fn send(email: &str) -> u32 {
    200
}

fn main() {
    let _ = send;
}

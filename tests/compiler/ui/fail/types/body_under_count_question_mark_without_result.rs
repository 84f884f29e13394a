use ratelimit_runtime::{rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |length| *length == 0, on_refused = |_error| 0)]
async fn send(email: &str) -> u8 {
    email.parse::<u8>()?
}

fn main() {
    let _ = send;
}

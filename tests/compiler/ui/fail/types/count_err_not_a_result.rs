use ratelimit_runtime::{rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err", on_refused = |_error| None)]
async fn send(email: &str) -> Option<usize> {
    Some(email.len())
}

fn main() {
    let _ = send;
}

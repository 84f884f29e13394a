use ratelimit_runtime::{rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err", on_refused = |_error| "no")]
async fn send(email: &str) -> impl std::fmt::Display {
    "yes"
}

fn main() {
    let _ = send;
}

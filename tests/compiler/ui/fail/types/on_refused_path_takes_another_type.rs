use ratelimit_runtime::rate_limit;

fn refused(_: String) -> u32 {
    429
}

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = refused)]
async fn send(email: &str) -> u32 {
    200
}

fn main() {
    let _ = send;
}

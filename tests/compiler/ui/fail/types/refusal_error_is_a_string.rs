use ratelimit_runtime::rate_limit;

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), String> {
    Ok(())
}

fn main() {
    let _ = send;
}

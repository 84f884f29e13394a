use ratelimit_runtime::rate_limit;

struct SendError;

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), SendError> {
    Ok(())
}

fn main() {
    let _ = send;
}

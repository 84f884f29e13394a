use ratelimit_runtime::rate_limit;

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = 429)]
async fn send(email: &str) -> u32 {
    200
}

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = Err("too many".to_owned()))]
async fn send_or_say_why(email: &str) -> Result<(), String> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = None)]
async fn find(email: &str) -> Option<u32> {
    Some(200)
}

fn main() {
    let _ = (send, send_or_say_why, find);
}

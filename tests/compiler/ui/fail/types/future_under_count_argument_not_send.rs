use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(email: &str, local: std::rc::Rc<()>) -> Result<(), RateLimitError> {
    drop(local);
    Ok(())
}

fn is_send<T: Send>(_: T) {}

fn main() {
    is_send(send("a", std::rc::Rc::new(())));
}

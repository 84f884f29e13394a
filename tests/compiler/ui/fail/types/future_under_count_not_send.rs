use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let local = std::rc::Rc::new(());
    std::future::ready(()).await;
    drop(local);
    Ok(())
}

fn is_send<T: Send>(_: T) {}

fn main() {
    is_send(send("a"));
}

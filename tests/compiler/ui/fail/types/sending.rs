use ratelimit_runtime::{RateLimitError, rate_limit};

fn is_send<T: Send>(_: T) {}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn body(email: &str) -> Result<(), RateLimitError> {
    let local = std::rc::Rc::new(());
    std::future::ready(()).await;
    drop(local);
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn argument_under_count(email: &str, local: std::rc::Rc<()>) -> Result<(), RateLimitError> {
    drop(local);
    Ok(())
}

fn main() {
    is_send(body("a"));
    is_send(argument_under_count("a", std::rc::Rc::new(())));
}

use ratelimit_runtime::{RateLimitError, rate_limit};

trait Map: Future + Sized {
    async fn map<T>(self, f: impl FnOnce(Self::Output) -> T) -> T {
        f(self.await)
    }
}

impl<F: Future> Map for F {}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
pub fn send(id: u32) -> impl Future<Output = Result<u8, RateLimitError>> {
    async move { 1 }.map(Ok)
}

fn main() {}

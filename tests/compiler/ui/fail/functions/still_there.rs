//! A function with a mistake in its attribute is still there: nothing else is reported.
use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;


trait Mailer {
    async fn send(&self, email: &str) -> Outcome;
}

struct Smtp;

impl Mailer for Smtp {
    #[rate_limit(key = "<emial>", window = "60s", max = 3)]
    async fn send(&self, email: &str) -> Outcome { Ok(()) }
}

fn main() {
    let _ = Smtp.send("a");
}

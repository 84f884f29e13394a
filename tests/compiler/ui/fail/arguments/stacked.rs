use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<email>", window = "60s", max = 3)]
#[rate_limit = "20/1d"]
async fn stacked_equals(email: &str) -> Outcome { Ok(()) }

#[rate_limit(limits = ["3/60s", "0/1d"], count = "errors")]
#[rate_limit(key = "<email>", window = "60s", max = 3, cost = 4)]
async fn stacked_new_arguments(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, name = "send")]
#[rate_limit(key = "<email>", window = "1d", max = 20, name = "send")]
async fn stacked_same_name(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, crate = ::ratelimit_runtime)]
#[rate_limit(key = "<email>", window = "1d", max = 20, crate = ::other)]
async fn stacked_two_crates(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = Err)]
#[rate_limit(key = "<email>", window = "1d", max = 20, on_refused = Err)]
async fn stacked_two_on_refused(email: &str) -> Outcome { Ok(()) }

fn main() {}

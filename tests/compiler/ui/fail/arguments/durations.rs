use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "ten minutes")]
async fn block_malformed(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = 10)]
async fn block_number(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "1m..400d")]
async fn block_range_above_the_maximum(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = 1..60)]
async fn block_range_as_an_expression(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "1m-1h")]
async fn block_range_by_a_dash(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "60s..1m")]
async fn block_range_equal(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "1m..=1h")]
async fn block_range_inclusive(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "1m..1h..1d")]
async fn block_range_of_three(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "1h..1m")]
async fn block_range_reversed(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "1us..1h")]
async fn block_range_too_short(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "1m .. 1h")]
async fn block_range_with_spaces(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "..1h")]
async fn block_range_without_a_beginning(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, block = "1..60m")]
async fn block_range_without_unit(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", concurrent = 5, lease = "61m")]
async fn lease_too_long(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", concurrent = 5, lease = "4s")]
async fn lease_too_short(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, timeout = 50)]
async fn timeout_number(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, timeout = "61s")]
async fn timeout_too_long(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, timeout = "50")]
async fn timeout_without_unit(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, wait = "2h")]
async fn wait_absurd(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, wait = 2s)]
async fn wait_without_quotes(email: &str) -> Outcome { Ok(()) }

fn main() {}

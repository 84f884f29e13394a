use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<user>", window = "1s", max = 300, prefetch = "100ms")]
async fn above_a_fiftieth_of_a_window(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", limits = ["9000/1h", "300/1500ms"], prefetch = "1s")]
async fn above_a_fiftieth_of_the_shortest_of_two(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "400ms", max = 300, prefetch = "10ms")]
async fn at_all_in_a_window_that_is_too_short(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "60s", max = 300, prefetch = "a moment")]
async fn malformed(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "60s", max = 300, prefetch = 100)]
async fn number(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "1d", max = 300, prefetch = "11s")]
async fn too_long(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "60s", max = 300, prefetch = "5ms")]
async fn too_short(user: &str) -> Outcome { Ok(()) }

#[rate_limit(window = "60s", max = 300, cost = 5, actual_cost = |r| tokens(r), prefetch = "1s")]
async fn with_actual_cost(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "60s", max = 300, prefetch = "1s", block = "1m..10m")]
async fn with_block(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", concurrent = 5, prefetch = "1s")]
async fn with_concurrent_alone(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "60s", max = 300, prefetch = "1s", count = "err")]
async fn with_count(user: &str) -> Outcome { Ok(()) }

#[rate_limit(policy = "search", prefetch = "1s", count = "ok", block = "1m")]
async fn with_count_and_block_beside_a_policy(user: &str) -> Outcome { Ok(()) }

fn main() {}

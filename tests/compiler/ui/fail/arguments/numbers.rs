use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

async fn quota() -> u32 {
    5
}

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = "token_bucket", burst = email.len())]
async fn burst_expression(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = "token_bucket", burst = 9007199254740992)]
async fn burst_too_large(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", concurrent = -1)]
async fn concurrent_negative(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", concurrent = 0)]
async fn concurrent_zero(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["20/1d", "3/60s"], cost = 4)]
async fn cost_above_one_of_several_limits(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = "leaky_bucket", burst = 2, cost = 3)]
async fn cost_above_the_burst(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, cost = 0.5)]
async fn cost_float(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, cost = 2kb)]
async fn cost_suffix(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "1m", max = 100_000, cost = 1_001)]
async fn cost_too_heavy_for_a_sliding_window(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = email.len(), cost = 9007199254740992)]
async fn cost_too_large(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = true)]
async fn max_bool(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 2.5)]
async fn max_float(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3/60)]
async fn max_fraction(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = -1)]
async fn max_negative(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 10 - 20)]
async fn max_reckoned_negative(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = (1 << 40) * 1024 * 1024)]
async fn max_reckoned_too_large(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = (10 * -1) as u64)]
async fn max_reckoned_negative_and_cast(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 1 / 0)]
async fn max_reckoned_without_end(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 5 % 5)]
async fn max_reckoned_zero(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = "3")]
async fn max_string(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3s)]
async fn max_suffix(email: &str) -> Outcome { Ok(()) }

fn main() {}

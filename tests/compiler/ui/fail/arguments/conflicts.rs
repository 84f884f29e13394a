use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<user>", concurrent = 5, shadow, wait = "1s")]
async fn concurrent_shadow_and_wait(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", concurrent = 5, algorithm = "token_bucket")]
async fn concurrent_with_algorithm_alone(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", concurrent = 5, block = "10m")]
async fn concurrent_with_block_alone(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", concurrent = 5, count = "err", cost = 2)]
async fn concurrent_with_count_and_cost_alone(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = "login", algorithm = "fixed_window")]
async fn policy_with_algorithm(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = "login", block = "10m")]
async fn policy_with_block(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = "login", burst = 3)]
async fn policy_with_burst(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = plan.policy(), window = "60s", max = 3)]
async fn policy_with_expression_and_max(email: &str, plan: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = "login", limits = ["3/60s"])]
async fn policy_with_limits(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = "login", limits = ["3/60s"], window = "1d", max = 20, block = "10m", wait = "2s")]
async fn several_conflicts(email: &str) -> Outcome { Ok(()) }

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = "TokenBucket")]
async fn algorithm_another_case(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = "tokn_bucket")]
async fn algorithm_misspelt(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = Algorithm::TokenBucket)]
async fn algorithm_not_a_string(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = "sliding_log")]
async fn algorithm_other_name(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = "quantum")]
async fn algorithm_unknown(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, algorithm = "lekay_bucket", burst = 10)]
async fn burst_and_a_misspelt_algorithm(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, on_unavailable = "alow")]
async fn on_unavailable_misspelt(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, on_unavailable = allow)]
async fn on_unavailable_not_a_string(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, on_unavailable = "open")]
async fn on_unavailable_unknown(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, on_unavailable = "fail_open")]
async fn on_unavailable_open(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, on_unavailable = "fail_closed")]
async fn on_unavailable_closed(email: &str) -> Outcome { Ok(()) }

fn main() {}

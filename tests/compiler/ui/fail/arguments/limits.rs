use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<email>", limits = [])]
async fn limits_empty(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = "3/60s, 20/1d")]
async fn limits_in_one_string(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["-3/60s"])]
async fn limits_negative(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["10/60s", "5/1h", "1_000/1d"])]
async fn limits_never_decide(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["/60s"])]
async fn limits_no_number(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["3/60s", "20/1m"])]
async fn limits_same_window(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["0/60s", "3", "3/1x"])]
async fn limits_several_mistakes(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = "3/minute")]
async fn limits_string(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["3/60s", "1d/20"])]
async fn limits_swapped(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["9007199254740992/60s"])]
async fn limits_too_large(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["1/1s", "2/2s", "3/3s", "4/4s", "5/5s", "6/6s", "7/7s", "8/8s", "9/9s"])]
async fn limits_too_many(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ("3/60s", "20/1d"))]
async fn limits_tuple(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["3/minute"])]
async fn limits_unit_alone(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["3/2000d"])]
async fn limits_window_absurd(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["3/60s"], burst = 3, algorithm = "token_bucket")]
async fn limits_with_burst(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["3/60s"], window = "60s", max = 3)]
async fn limits_with_window_and_max(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["three/60s"])]
async fn limits_word(email: &str) -> Outcome { Ok(()) }

#[rate_limit(policy = "", algorithm = "gcra", burst = 0, cost = -1, count = "error", block = "0s", wait = "2")]
async fn several_limits_errors(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["3/1m, 20/1d"])]
async fn two_in_one_string(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", limits = ["3/1m" "20/1d"])]
async fn without_a_comma(email: &str) -> Outcome { Ok(()) }

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key: "<email>", window = "60s", max = 3)]
async fn colon_for_equals(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, key = "<email>")]
async fn duplicate(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key, window = "60s", max = 3)]
async fn key_without_value(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", lease = "30s")]
async fn lease_alone(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", rate = "3/60s")]
async fn limit_under_another_name(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>" window = "60s", max = 3)]
async fn missing_comma(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s")]
async fn missing_max(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", max = 3)]
async fn missing_window(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", windw = "60s", max = 3)]
async fn misspelt(email: &str) -> Outcome { Ok(()) }

#[rate_limit(ky = "<email>", window = "60s", mx = 3)]
async fn misspelt_short(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", win = "60s", max = 3)]
async fn window(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "60s", max = 3, unless = user == "admin")]
async fn opposite(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", per_second = 5)]
async fn rate(email: &str) -> Outcome { Ok(()) }

#[rate_limit("<email>", window = "60s", max = 3)]
async fn positional(email: &str) -> Outcome { Ok(()) }

#[rate_limit("3/1m")]
async fn limit(email: &str) -> Outcome { Ok(()) }

#[rate_limit("3 per minute")]
async fn limit_in_words(email: &str) -> Outcome { Ok(()) }

#[rate_limit("60s", max = 3)]
async fn window2(email: &str) -> Outcome { Ok(()) }

#[rate_limit("60", key = "<email>")]
async fn number(email: &str) -> Outcome { Ok(()) }

#[rate_limit(3, 60s)]
async fn both(email: &str) -> Outcome { Ok(()) }

#[rate_limit(kye = "<email>", window = "60", max = 0, name = "", timeout = "2h", cost = 0)]
async fn several_errors(email: &str) -> Outcome { Ok(()) }

#[rate_limit(by = "<email>", per = "60s", limit = 3)]
async fn synonym(email: &str) -> Outcome { Ok(()) }

#[rate_limit(quotas = ["3/60s"], strategy = "token_bucket", capacity = 5, weight = 2, ban = "10m", max_wait = "2s")]
async fn synonyms_of_new_arguments(email: &str) -> Outcome { Ok(()) }

#[rate_limit(limits, policy =, algorithm, burst, cost =, block, wait)]
async fn values_missing(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key => email, window => "60s", max == 3)]
async fn arrows_for_equals(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key(email), window("60s"), max(3), shadow(true))]
async fn parentheses_for_equals(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>"foo, window = "60s"s, max = 3)]
async fn suffixes_of_strings(email: &str) -> Outcome { Ok(()) }

fn main() {}

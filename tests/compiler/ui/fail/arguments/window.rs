use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

const WINDOW: &str = "60s";

#[rate_limit(key = "<email>", window = "99999999999999999999s", max = 3)]
async fn window_absurd(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = WINDOW, max = 3)]
async fn window_constant(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "", max = 3)]
async fn window_empty(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "minute", max = 3)]
async fn window_without_a_number(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "1.5h", max = 3)]
async fn window_fraction(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "1 month", max = 3)]
async fn window_month(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "-60s", max = 3)]
async fn window_negative(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = 60, max = 3)]
async fn window_number(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = 60_000, max = 3)]
async fn window_number_of_milliseconds(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "3/60s", max = 3)]
async fn window_rate(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "367d", max = 3)]
async fn window_too_long(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "999us", max = 3)]
async fn window_too_short(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "30s 30s", max = 3)]
async fn window_unit_twice(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "5 fortnights", max = 3)]
async fn window_unknown_unit(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60S", max = 3)]
async fn window_upper_case(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = 60s, max = 3)]
async fn window_without_quotes(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "0s", max = 3)]
async fn window_zero(email: &str) -> Outcome { Ok(()) }

fn main() {}

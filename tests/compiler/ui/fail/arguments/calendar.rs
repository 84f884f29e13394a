use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<user>", window = "daily", max = 500, algorithm = "fixed_window")]
async fn calendar_adverb(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", limits = ["500/days", "10000/month"], algorithm = "fixed_window")]
async fn calendar_limits_plural(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", limits = ["500/day", "100/month"], algorithm = "fixed_window")]
async fn calendar_limits_that_never_decide(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", limits = ["500/day", "10000/month"])]
async fn calendar_limits_under_the_default_algorithm(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", limits = ["500/day@Europe/Berlin"], algorithm = "fixed_window")]
async fn calendar_limits_with_a_zone(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "quarter", max = 500, algorithm = "fixed_window")]
async fn calendar_quarter(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "month", max = 500, algorithm = "token_bucket")]
async fn calendar_under_a_bucket(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "day", max = 500, algorithm = "fixed_windows")]
async fn calendar_under_a_misspelt_algorithm(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "day", max = 500, burst = 50, algorithm = "fixed_window")]
async fn calendar_with_burst(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "day", max = 500, algorithm = "fixed_window", zone = "")]
async fn zone_empty(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "day", max = 500, algorithm = "fixed_window", zone = zone_of(user))]
async fn zone_expression(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "day", max = 500, algorithm = "fixed_window", zone = "Europe/Berlni")]
async fn zone_misspelt(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", limits = ["5/1m", "500/1d"], algorithm = "fixed_window", zone = "Europe/Berlin")]
async fn zone_of_limits_by_the_clock(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "day", max = 500, algorithm = "fixed_window", zone = "+02:00")]
async fn zone_offset(user: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<user>", window = "day", max = 500, algorithm = "fixed_window", zone = "<user>")]
async fn zone_template(user: &str) -> Outcome { Ok(()) }

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<email>", window = "60s", max = 3, crate = 1)]
async fn crate_not_a_path(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, crate = limits)]
async fn crate_relative(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, name = "{send}")]
async fn name_braces(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, name = "send\ncode")]
async fn name_control(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, name = email)]
async fn name_expression(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, name = concat!("send", "_code"))]
async fn name_macro(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, name = "ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé")]
async fn name_too_long(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = login)]
async fn policy_bare_word(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = "{login}")]
async fn policy_braces(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = |plan| plan.policy())]
async fn policy_closure(email: &str, plan: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = 5)]
async fn policy_number(email: &str, plan: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", policy = return)]
async fn policy_return(email: &str, plan: &str) -> Outcome { Ok(()) }

fn main() {}

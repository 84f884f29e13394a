use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;
type Sent = Result<u64, RateLimitError>;

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = async |sent| tokens(sent).await)]
async fn actual_cost_async(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "1m", max = 100_000, cost = 1, actual_cost = |sent| tokens(sent))]
async fn actual_cost_beyond_a_sliding_window(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = |_| 7)]
async fn actual_cost_constant(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = |_| 0)]
async fn actual_cost_nothing(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 30, actual_cost = 5)]
async fn actual_cost_number(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = |()| email.len(), shadow)]
async fn actual_cost_on_nothing(email: &str) {}

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = tokens(email)?)]
async fn actual_cost_question_mark(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = "tokens")]
async fn actual_cost_string(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = || tokens())]
async fn actual_cost_takes_nothing(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 30, cost = 5, actual_cost = |sent| sent.as_ref().map_or(0, |n| *n), count = "ok")]
async fn actual_cost_with_count(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 30, actual_cost = |sent| sent.as_ref().map_or(0, |n| *n))]
async fn actual_cost_without_an_estimate(email: &str) -> Sent { Ok(1) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "Ok")]
async fn count_another_case(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = err)]
async fn count_bare_word(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = true)]
async fn count_bool(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |()| true, shadow)]
async fn count_closure_on_nothing(email: &str) {}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |_| false)]
async fn count_nothing(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = 5)]
async fn count_number(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "ok")]
async fn count_on_nothing_and_nothing_to_return(email: &str) {}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = judge(email)?)]
async fn count_question_mark(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "banana")]
async fn count_unknown(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = Err)]
async fn count_variant(email: &str) -> Outcome { Ok(()) }

fn main() {}

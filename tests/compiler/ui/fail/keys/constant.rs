use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

// Keys that are the same for every call.

const EMAIL_KEY: &str = "<email>";

struct Service {
    tenant: u32,
}

impl Service {
    #[rate_limit(key = "self.tenant", window = "60s", max = 3)]
    async fn self_in_text(&self) -> Outcome { Ok(()) }
}

#[rate_limit(key = "", window = "60s", max = 3)]
async fn empty(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "email", window = "60s", max = 3)]
async fn argument(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "login:userId", window = "60s", max = 3)]
async fn another_case(user_id: u64) -> Outcome { Ok(()) }

#[rate_limit(key = "user:%s", window = "60s", max = 3)]
async fn printf(id: u32) -> Outcome { Ok(()) }

#[rate_limit(key = "$1", window = "60s", max = 3)]
async fn number(id: u32) -> Outcome { Ok(()) }

#[rate_limit(key = "user_id", window = "60s", max = 3)]
async fn column(id: u32) -> Outcome { Ok(()) }

#[rate_limit(key = "login", window = "60s", max = 3)]
async fn no_argument() -> Outcome { Ok(()) }

#[rate_limit(key = "${email}", window = "60s", max = 3)]
async fn shell(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "login:#{email.len()}", window = "60s", max = 3)]
async fn ruby(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<tenant>/$email", window = "60s", max = 3)]
async fn dollar(tenant: u32, email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<tenant>/<<email>>", window = "60s", max = 3)]
async fn doubled(tenant: u32, email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "email:<tenant>", window = "60s", max = 3)]
async fn label(tenant: u32, email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = ratelimit_runtime::key!("login:<email>"), window = "60s", max = 3)]
async fn key_macro(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = crate::EMAIL_KEY, window = "60s", max = 3)]
async fn constant(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = 42, window = "60s", max = 3)]
async fn integer(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = b"<email>", window = "60s", max = 3)]
async fn bytes(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = format!("email"), window = "60s", max = 3)]
async fn format(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = (crate::EMAIL_KEY, 7), window = "60s", max = 3)]
async fn tuple(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = String::from("email"), window = "60s", max = 3)]
async fn function(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = ("<emial>"), window = "60s", max = 3)]
async fn in_parentheses(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = { "email" }, window = "60s", max = 3)]
async fn in_a_block(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = { email.to_lowercase(); }, window = "60s", max = 3)]
async fn block(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = ("<email>", ip), window = "60s", max = 3)]
async fn text_in_a_tuple(email: &str, ip: u32) -> Outcome { Ok(()) }

#[rate_limit(key = ("{email}", ip), window = "60s", max = 3)]
async fn braces_in_a_tuple(email: &str, ip: u32) -> Outcome { Ok(()) }

#[rate_limit(key = ("<emial>", ip), window = "60s", max = 3)]
async fn misspelt_in_a_tuple(email: &str, ip: u32) -> Outcome { Ok(()) }

#[rate_limit(key = format!("<email>:{ip}"), window = "60s", max = 3)]
async fn text_in_format(email: &str, ip: u32) -> Outcome { Ok(()) }

#[rate_limit(key = concat!("<email>"), window = "60s", max = 3)]
async fn text_in_concat(email: &str, ip: u32) -> Outcome { Ok(()) }

#[rate_limit(key = stringify!(email), window = "60s", max = 3)]
async fn stringified(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "#user.id", window = "60s", max = 3)]
async fn field_in_text(user: User) -> Outcome { Ok(()) }

#[rate_limit(key = "<tenant>/user.name.len()", window = "60s", max = 3)]
async fn field_beside(tenant: u32, user: User) -> Outcome { Ok(()) }

fn main() {}

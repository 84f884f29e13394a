use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

macro_rules! limited {
    ($name:ident, $key:literal) => {
        #[rate_limit(key = $key, window = "60s", max = 3)]
        async fn $name(email: &str) -> Outcome { Ok(()) }
    };
    (of $id:ident, $name:ident) => {
        #[rate_limit(key = "<id>", window = "60s", max = 3)]
        async fn $name($id: u32, id: u32) -> Outcome { Ok(drop(id)) }
    };
}

limited!(made_by_a_macro, "<emial>");
limited!(of id, two_arguments_of_one_name);

#[rate_limit(key = "<email.await>", window = "60s", max = 3)]
async fn await_in_template(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "\t\u{1F600}é:<emial>", window = "60s", max = 3)]
async fn caret_after_escapes(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<tenant>:
            <emial>:
            <tenant>", window = "60s", max = 3)]
async fn caret_in_a_long_literal(tenant: u32, email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = r#"""<emial>"#, window = "60s", max = 3)]
async fn caret_in_a_raw_string(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email}", window = "60s", max = 3)]
async fn closed_by_another_bracket(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "email>:x", window = "60s", max = 3)]
async fn closes_nothing(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn conditional_argument(#[cfg(all())] email: String) -> Outcome { Ok(drop(email)) }

#[rate_limit(key = "user:<>", window = "60s", max = 3)]
async fn empty_placeholder(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email.>", window = "60s", max = 3)]
async fn ends_with_a_dot(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "{email:?}", window = "60s", max = 3)]
async fn format_specification(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<list[0]>", window = "60s", max = 3)]
async fn index(list: &[u8]) -> Outcome { Ok(()) }

#[rate_limit(key = "<user-id>", window = "60s", max = 3)]
async fn hyphen(user_id: u32) -> Outcome { Ok(()) }

#[rate_limit(key = "<tenant//email>", window = "60s", max = 3)]
async fn in_a_comment(tenant: u32, email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<zz>", window = "60s", max = 3)]
async fn many_arguments(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8) -> Outcome { Ok(()) }

#[rate_limit(key = "<email.replace(a, b)>", window = "60s", max = 3)]
async fn method_with_argument(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn no_arguments() -> Outcome { Ok(()) }

#[rate_limit(key = "<a + b>", window = "60s", max = 3)]
async fn operator(a: u8, b: u8) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>/<SHARD>", window = "60s", max = 3)]
async fn parameter<const SHARD: usize>(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email::len>", window = "60s", max = 3)]
async fn path(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<self.id>", window = "60s", max = 3)]
async fn self_without_receiver(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<>:<emial>:<a b>:{email:?}>", window = "60s", max = 3)]
async fn several_mistakes(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<mail_address>:<user>", window = "60s", max = 3)]
async fn unknown(user: u32, email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<_>", window = "60s", max = 3)]
async fn wildcard(_: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<Email>", window = "60s", max = 3)]
async fn wrong_case(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email.len>", window = "60s", max = 3)]
async fn method_without_call(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = <email>, window = "60s", max = 3)]
async fn without_quotes(email: &str) -> Outcome { Ok(()) }

fn main() {}

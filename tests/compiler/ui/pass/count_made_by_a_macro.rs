#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

macro_rules! limited {
    ($name:ident($argument:ident), $count:expr, $body:block) => {
        #[rate_limit(window = "60s", max = 1, count = $count)]
        async fn $name($argument: &str) -> Outcome<u8> $body
    };
}

limited!(by_word(text), "err", { Ok(text.parse()?) });
limited!(by_closure(text), |outcome| matches!(outcome, Err(error) if !error.to_string().is_empty()), {
    Ok(text.parse()?)
});

#[tokio::test]
async fn runs() {
    only_failures_count(by_word).await;
    only_failures_count(by_closure).await;
}

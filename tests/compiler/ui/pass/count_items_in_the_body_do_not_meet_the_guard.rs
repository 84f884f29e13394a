#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn parse(text: &str) -> Outcome<u8> {
    mod core {}
    mod std {}
    #[derive(Debug)]
    enum Option {
        None,
    }
    fn text_of(text: &str) -> &str {
        assert_eq!(format!("{:?}", Option::None), "None");
        text
    }
    let __ratelimit_reservation = text_of(text);
    let __ratelimit_outcome: u8 = __ratelimit_reservation.parse()?;
    Ok(__ratelimit_outcome)
}

#[tokio::test]
async fn runs() {
    only_failures_count(parse).await;
}

#![deny(warnings)]

use ratelimit_runtime::rate_limit;

#[rate_limit(window = "60s", max = 1, count = "err", shadow)]
async fn parse(text: &str) -> Result<u8, std::num::ParseIntError> {
    text.parse()
}

#[tokio::test]
async fn runs() {
    assert!(parse("?").await.is_err());
    assert_eq!(parse("1").await, Ok(1));
}

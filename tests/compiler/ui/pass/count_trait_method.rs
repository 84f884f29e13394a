#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

trait Parse {
    async fn parse(&self, text: &str) -> Outcome<u8>;

    #[rate_limit(window = "60s", max = 1, count = "err")]
    async fn provided(&self, text: &str) -> Outcome<u8> {
        Ok(text.parse()?)
    }
}

struct Parser(u8);

impl Parse for Parser {
    #[rate_limit(key = "<self.0>", window = "60s", max = 1, count = "err")]
    async fn parse(&self, text: &str) -> Outcome<u8> {
        Ok(text.parse()?)
    }
}

#[tokio::test]
async fn runs() {
    only_failures_count(async |text| Parser(7).parse(text).await).await;
    only_failures_count(async |text| Parser(7).provided(text).await).await;
}

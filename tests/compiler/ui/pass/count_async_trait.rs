#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

#[async_trait::async_trait]
trait Parse: Sync {
    async fn parse(&self, to: (u32, &str), text: &str) -> Outcome<u8>;

    #[rate_limit(window = "60s", max = 1, count = |outcome| self.failed(outcome))]
    async fn provided(&self, text: &str) -> Outcome<u8> {
        if text.is_empty() {
            return Ok(0);
        }
        Ok(text.parse()?)
    }

    fn failed(&self, outcome: &Outcome<u8>) -> bool {
        outcome.is_err()
    }
}

struct Parser {
    region: &'static str,
}

#[async_trait::async_trait]
impl Parse for Parser {
    #[rate_limit(key = "<self.region>:<tenant>:<email>", window = "60s", max = 1, count = "err")]
    async fn parse(&self, (tenant, email): (u32, &str), text: &str) -> Outcome<u8> {
        Ok(text.parse()?)
    }
}

#[tokio::test]
async fn runs() {
    let parser: Box<dyn Parse> = Box::new(Parser { region: "eu" });
    only_failures_count(async |text| parser.parse((1, "a"), text).await).await;
    only_failures_count(async |text| parser.provided(text).await).await;
}

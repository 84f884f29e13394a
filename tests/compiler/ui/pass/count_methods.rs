#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

struct Parser {
    base: u32,
}

impl Parser {
    #[rate_limit(key = "<self.base>", window = "60s", max = 1, count = "err")]
    async fn by_reference(&self, text: &str) -> Outcome<u32> {
        Ok(u32::from_str_radix(text, self.base)?)
    }

    #[rate_limit(key = "<self.base>", window = "60s", max = 1, count = "err")]
    async fn by_mutable_reference(&mut self, text: &str) -> Outcome<u32> {
        self.base += 1;
        Ok(u32::from_str_radix(text, self.base)?)
    }

    #[rate_limit(key = "<self.base>", window = "60s", max = 1, count = "err")]
    async fn by_value(self, text: &str) -> Outcome<u32> {
        let Self { base } = self;
        Ok(u32::from_str_radix(text, base)?)
    }

    #[rate_limit(key = "<self.base>", window = "60s", max = 1, count = "err")]
    async fn by_arc(self: std::sync::Arc<Self>, text: &str) -> Outcome<u32> {
        Ok(u32::from_str_radix(text, self.base)?)
    }

    #[rate_limit(window = "60s", max = 1, count = "err")]
    async fn associated(text: &str) -> Outcome<Self> {
        Ok(Self { base: text.parse()? })
    }
}

#[tokio::test]
async fn runs() {
    only_failures_count(async |text| Parser { base: 10 }.by_reference(text).await).await;
    only_failures_count(async |text| Parser { base: 10 }.by_mutable_reference(text).await).await;
    only_failures_count(async |text| Parser { base: 10 }.by_value(text).await).await;
    only_failures_count(async |text| std::sync::Arc::new(Parser { base: 10 }).by_arc(text).await).await;
    only_failures_count(Parser::associated).await;
}

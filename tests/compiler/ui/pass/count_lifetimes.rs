#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

struct Parser<'p> {
    prefix: &'p str,
}

impl<'p> Parser<'p> {
    #[rate_limit(key = "<self.prefix>", window = "60s", max = 1, count = "err")]
    async fn parse<'t>(&self, text: &'t str, name: &str) -> Outcome<(&'p str, &'t str)> {
        let number: u8 = text.parse()?;
        assert_eq!(number, 1);
        assert_eq!(name, "name");
        Ok((self.prefix, text))
    }

    #[rate_limit(window = "60s", max = 1, count = "err")]
    async fn elided(&self, text: &'static str) -> Outcome<&str> {
        text.parse::<u8>()?;
        Ok(self.prefix)
    }
}

#[tokio::test]
async fn runs() {
    let parser = Parser { prefix: "p" };
    only_failures_count(async |text| {
        let name = String::from("name");
        parser.parse(text, &name).await
    })
    .await;
    only_failures_count(async |text| parser.elided(text).await).await;
}

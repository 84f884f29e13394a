#![deny(warnings)]

use ratelimit_runtime::{KeyPart, rate_limit};

use crate::{Outcome, only_failures_count};

#[rate_limit(key = "<id>", window = "60s", max = 1, count = "err")]
async fn parse<T: KeyPart, N, const LENGTH: usize>(id: T, text: &str, name: impl AsRef<str>) -> Outcome<[N; LENGTH]>
where
    N: std::str::FromStr + Copy,
    N::Err: std::error::Error + Send + Sync + 'static,
{
    assert_eq!(name.as_ref(), "name");
    Ok([text.parse()?; LENGTH])
}

#[tokio::test]
async fn runs() {
    only_failures_count(async |text| parse::<_, u8, 3>("a", text, "name").await).await;
}

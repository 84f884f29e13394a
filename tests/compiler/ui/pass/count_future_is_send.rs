#![deny(warnings)]

use std::cell::Cell;

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

/// `Send`, but not `Sync`: it cannot be borrowed across an `.await`.
#[rate_limit(key = "<email>", window = "60s", max = 1, count = |outcome| outcome.is_err() && !email.is_empty())]
async fn parse(email: String, cell: Cell<u8>, text: &'static str) -> Outcome<Cell<u8>> {
    std::future::ready(()).await;
    cell.set(text.parse()?);
    Ok(cell)
}

#[tokio::test]
async fn runs() {
    only_failures_count(async |text| tokio::spawn(parse("a".to_owned(), Cell::new(0), text)).await?).await;
}

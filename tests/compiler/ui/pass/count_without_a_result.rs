#![deny(warnings)]

use ratelimit_runtime::rate_limit;

#[rate_limit(window = "60s", max = 1, count = |status| *status >= 400, on_refused = |_error| 429)]
async fn answer(status: u16) -> u16 {
    status
}

#[rate_limit(window = "60s", max = 1, count = Option::is_none, on_refused = |_error| Some("refused"))]
async fn find(found: bool) -> Option<&'static str> {
    found.then_some("found")
}

#[tokio::test]
async fn runs() {
    assert_eq!([answer(200).await, answer(302).await, answer(500).await, answer(200).await], [200, 302, 500, 429]);
    assert_eq!([find(true).await, find(false).await, find(true).await], [Some("found"), None, Some("refused")]);
}

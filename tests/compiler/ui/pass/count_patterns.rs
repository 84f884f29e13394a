#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

struct Point {
    x: i32,
    y: i32,
}

struct Json<T>(T);

#[rate_limit(key = "<a>:<c>:<x>:<first>:<whole.0>:<n>", window = "60s", max = 1, count = "err")]
async fn parse(
    (a, text): (u8, &str),
    Json(c): Json<String>,
    Point { x, y: _ }: Point,
    [first, ..]: [u8; 3],
    whole @ (_, _): (u8, u8),
    &n: &u64,
    _: u8,
) -> Outcome<String> {
    let number: u8 = text.parse()?;
    Ok(c + &number.to_string())
}

#[tokio::test]
async fn runs() {
    only_failures_count(async |text| {
        let point = Point { x: 2, y: 3 };
        assert_eq!(point.y, 3);
        parse((1, text), Json("c".to_owned()), point, [4, 5, 6], (7, 8), &9, 10).await
    })
    .await;
}

#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

struct Point {
    x: i32,
    y: i32,
}

struct Json<T>(T);

#[rate_limit(key = "<a>:<b>:<c>:<x>:<z>:<first>:<whole.0>:<n>", window = "60s", max = 1)]
async fn send(
    (a, b): (u8, &str),
    Json(c): Json<u16>,
    Point { x, y: z }: Point,
    [first, ..]: [u8; 3],
    whole @ (_, _): (u8, u8),
    &n: &u64,
    _: u8,
) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send((1, "b"), Json(2), Point { x: 3, y: 4 }, [5, 6, 7], (8, 9), &10, 11).await.is_ok());
    assert!(send((1, "b"), Json(2), Point { x: 3, y: 4 }, [5, 6, 7], (8, 9), &10, 11).await.is_err());
}

//! What a guard adds to the size of a future: it lives in every caller's.

#![allow(
    clippy::large_types_passed_by_value,
    clippy::print_stdout,
    reason = "large arguments and figures are the point"
)]
use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

async fn bare(user: &str) -> Outcome {
    tokio::task::yield_now().await;
    let _ = user;
    Ok(())
}

#[rate_limit(key = "<user>", window = "60s", max = 3)]
async fn one(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

#[rate_limit(key = "<user>", window = "60s", max = 3, wait = "1s", name = "size_a")]
#[rate_limit(key = "<user>", window = "61s", max = 3, name = "size_b")]
#[rate_limit(key = "<user>", window = "62s", max = 3, name = "size_c")]
#[rate_limit(key = "<user>", window = "63s", max = 3, name = "size_d")]
async fn four(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

#[rate_limit(
    key = "<user>",
    window = "60s",
    max = 3,
    count = "err",
    name = "size_e"
)]
async fn counted(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

#[rate_limit(
    key = "<user>",
    window = "60s",
    max = 3,
    concurrent = 5,
    name = "size_g"
)]
async fn in_flight(user: &str) -> Outcome {
    let _ = user;
    Ok(())
}

async fn bare_with(argument: [u8; 16_384]) -> Outcome {
    tokio::task::yield_now().await;
    let _ = argument;
    Ok(())
}

#[rate_limit(window = "60s", max = 3, name = "size_f")]
async fn with(argument: [u8; 16_384]) -> Outcome {
    let _ = argument;
    Ok(())
}

#[test]
fn a_guard_adds_little_to_a_future() {
    let bare = size_of_val(&bare("a"));
    let (one, four, counted) = (
        size_of_val(&one("a")),
        size_of_val(&four("a")),
        size_of_val(&counted("a")),
    );
    let (bare_with, with) = (
        size_of_val(&bare_with([0; 16_384])),
        size_of_val(&with([0; 16_384])),
    );
    let in_flight = size_of_val(&in_flight("a"));
    println!("in flight {in_flight}");
    println!(
        "bare {bare}, one {one}, four {four}, counted {counted}; 16 KiB argument: bare \
         {bare_with}, one {with}"
    );
    assert!(
        one <= bare + 400,
        "one attribute: {bare} became {one} bytes"
    );
    assert!(
        four <= bare + 400 + 3 * 100,
        "four attributes: {bare} became {four} bytes"
    );
    assert!(
        in_flight <= bare + 400,
        "a limit of calls in flight: {bare} became {in_flight} bytes"
    );
    assert!(
        with <= bare_with + 400,
        "a 16 KiB argument: {bare_with} became {with} bytes"
    );
}

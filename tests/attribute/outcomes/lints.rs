//! No lint fires because of `count` and its neighbours, and the future stays `Send`.
#![deny(
    warnings,
    unused,
    unreachable_code,
    rust_2018_idioms,
    unused_qualifications,
    let_underscore_drop,
    single_use_lifetimes,
    elided_lifetimes_in_paths,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::shadow_unrelated,
    clippy::shadow_reuse,
    clippy::let_underscore_untyped,
    clippy::let_underscore_must_use,
    clippy::semicolon_outside_block,
    clippy::absolute_paths,
    clippy::items_after_statements,
    clippy::large_futures,
    clippy::future_not_send
)]

use std::cell::Cell;
use std::future::{Future, ready};
use std::process::exit;

use ratelimit_runtime::{KeyPart, rate_limit};

use super::{Failure, Outcome};

#[rate_limit(key = "<id>", limits = ["3/60s", "20/1d"], cost = weight, count = "err", block = "10m")]
async fn everything(id: u32, weight: u8) -> Outcome {
    ready(()).await;
    Ok(())
}

#[rate_limit(key = "<text>", window = "60s", max = 1, count = "ok", algorithm = "token_bucket", burst = 2)]
async fn mutable(mut text: String) -> Result<String, Failure> {
    text.push('!');
    Ok(text)
}

#[rate_limit(key = "<a>:<c>", window = "60s", max = 1, count = |outcome| matches!(outcome, Err(Failure::Wrong)), wait = "1s")]
async fn patterns((a, _): (u8, u8), [c, ..]: [u8; 3], _: &str) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, count = Result::is_err)]
async fn generic<T: KeyPart + Send + Sync, const N: usize>(id: T, pad: [u8; N]) -> Result<usize, Failure> {
    Ok(pad.len())
}

#[rate_limit(window = "60s", max = 2, count = "ok", shadow)]
#[rate_limit(policy = "stacked", when = on, name = "stacked", shadow)]
async fn stacked(on: bool) -> Outcome {
    Ok(())
}

#[rate_limit(window = "60s", max = 2, count = "err")]
async fn never_returns_here(early: bool) -> Outcome {
    if early {
        return Ok(());
    }
    Err(Failure::Wrong)?;
    loop {
        ready(()).await;
    }
}

#[rate_limit(window = "60s", max = 2, count = "err")]
async fn diverges() -> Outcome {
    exit(1)
}

#[rate_limit(window = "60s", max = 2, count = "ok")]
async fn opaque(text: &str) -> Result<impl Iterator<Item = char> + '_, Failure> {
    ready(()).await;
    Ok(text.chars())
}

/// `Send`, but not `Sync`: it cannot be borrowed across an `.await`.
#[derive(KeyPart)]
struct Account(u32);

#[rate_limit(key = "<account>", window = "60s", max = 2, count = "ok")]
async fn send_but_not_sync(account: Account, cell: Cell<u8>) -> Outcome {
    ready(()).await;
    cell.set(1);
    Ok(())
}

const fn is_send<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn futures_are_send() -> Outcome {
    super::alone(async {
        is_send(everything(1, 2)).await?;
        assert_eq!(is_send(mutable("a".to_owned())).await?, "a!");
        is_send(patterns((1, 2), [3; 3], "")).await?;
        assert_eq!(is_send(generic(7, [0; 3])).await?, 3);
        is_send(stacked(false)).await?;
        is_send(never_returns_here(true)).await?;
        drop(is_send(diverges()));
        assert_eq!(is_send(opaque("ab")).await?.count(), 2);
        is_send(send_but_not_sync(Account(1), Cell::new(0))).await
    })
    .await
}

//! Limits in a custom store, `store.rs` in this folder. The tests of this repository check it with
//! `ratelimit_conformance::conformance!`; check your own store in the same way.
//!
//! ```text
//! cargo run --example custom_store
//! ```

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod store;

use ratelimit_runtime::clock::SystemClock;
use ratelimit_runtime::{RateLimitError, RateLimiter, rate_limit};

use store::LogStore;

#[rate_limit(key = "<user>", window = "10s", max = 2)]
async fn search(user: &str, query: &str) -> Result<String, RateLimitError> {
    Ok(format!("{user} found {query}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RateLimitError> {
    RateLimiter::with_store(LogStore::new(SystemClock)).install();

    println!("{}", search("alice", "a needle").await?);
    println!("{}", search("alice", "a haystack").await?);
    let refused = search("alice", "the rest").await;
    println!("the third in ten seconds: {refused:?}");
    assert!(matches!(&refused, Err(RateLimitError::Exceeded(decision)) if decision.limit() == 2));
    println!("{}", search("bob", "a needle").await?);
    Ok(())
}

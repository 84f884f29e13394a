//! A client that stays below the limit of a remote API, in several processes that share the limit
//! on Redis.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1/ cargo run --example outbound --features outbound
//! ```
//!
//! It starts an API that answers 429 above 20 calls in any two seconds, and four more processes of
//! this program that make 15 calls each. Their calls wait for room, and the API refuses none.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod api;

use std::env;
use std::process::ExitCode;

use ratelimit_runtime::{OnUnavailable, RateLimiter, rate_limit};
use tokio::process::Command;

use api::Api;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The API admits 20 calls in two seconds. The window here is half a second longer, because a call
/// may take longer to arrive at the API than the calls after it.
#[rate_limit(
    name = "their_api",
    window = "2500ms",
    max = 20,
    wait = "1m",
    timeout = "5s"
)]
async fn call_their_api(client: &reqwest::Client, url: &str) -> Result<(), Error> {
    client.get(url).send().await?.error_for_status()?;
    Ok(())
}

/// Makes the calls of one process.
async fn work(url: &str) -> Result<(), Error> {
    // Without Redis no call is made: the limit of the API must not be exceeded.
    let limiter = RateLimiter::builder()
        .store_from_env()?
        .on_unavailable(OnUnavailable::Deny)
        .build()?;
    limiter.ready().await?;
    limiter.install();
    let client = reqwest::Client::new();
    for _ in 0..15 {
        call_their_api(&client, url).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    if let Some(url) = env::args().nth(1) {
        return work(&url).await.map(|()| ExitCode::SUCCESS);
    }
    if env::var_os("REDIS_URL").is_none() && env::var_os("RATELIMIT_URL").is_none() {
        eprintln!(
            "processes share limits on a Redis: REDIS_URL=redis://127.0.0.1/ cargo run --example \
             outbound --features outbound"
        );
        return Ok(ExitCode::from(2));
    }
    let api = Api::start().await?;
    let process = || {
        Command::new(env::current_exe()?)
            .arg(&api.url)
            .kill_on_drop(true)
            .spawn()
    };
    let processes = (0..4).map(|_| process()).collect::<Result<Vec<_>, _>>()?;
    let mut all_done = true;
    for mut process in processes {
        all_done &= process.wait().await?.success();
    }
    println!("{api}");
    Ok(if all_done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

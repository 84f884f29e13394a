//! Limits that operators change while the service runs: policies from a file of TOML or JSON, from
//! a database, or from the environment.
//!
//! ```text
//! cargo run --example policies --features policies -- examples/policies/policies.toml     # then edit that file
//! cargo run --example policies --features policies -- redis://127.0.0.1/                  # redis-cli HSET policies login 5/1m search 9/1s
//! RATELIMIT_POLICY_LOGIN=5/1m RATELIMIT_POLICY_SEARCH='token_bucket 10/1s burst 50' cargo run --example policies --features policies
//! curl -i http://127.0.0.1:3000/login/alice
//! ```

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod database;
mod environment;

use std::process::ExitCode;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use ratelimit_runtime::{RateLimitError, RateLimitLayer, RateLimiter, rate_limit};
use tokio::net::TcpListener;

#[rate_limit(key = "<user>", policy = "login")]
async fn login(Path(user): Path<String>) -> Result<String, RateLimitError> {
    Ok(format!("welcome, {user}\n"))
}

#[rate_limit(key = "<term>", policy = "search")]
async fn search(Path(term): Path<String>) -> Result<String, RateLimitError> {
    Ok(format!("nothing was found about {term}\n"))
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = RateLimiter::builder().store_from_env()?.build()?;
    match std::env::args().nth(1) {
        None => limiter.set_policies(environment::read()?)?,
        Some(url) if url.starts_with("redis://") => database::follow(url, limiter.clone()).await?,
        Some(file) => limiter.watch_policies(file).await?,
    }
    limiter.install();

    let app = Router::new()
        .route("/login/{user}", get(login))
        .route("/search/{term}", get(search));
    let port = std::env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listens on http://{}", listener.local_addr()?);
    axum::serve(listener, app.layer(RateLimitLayer::new())).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tracing::error!("{problem}");
            ExitCode::FAILURE
        }
    }
}

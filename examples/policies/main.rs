//! Limits that operators change while the service runs: policies from TOML, from JSON, or from the
//! environment.
//!
//! ```text
//! cargo run --example policies --features policies -- examples/policies/policies.toml     # then edit that file
//! RATELIMIT_POLICY_LOGIN=5/1m RATELIMIT_POLICY_SEARCH='token_bucket 10/1s burst 50' cargo run --example policies --features policies
//! curl -i http://127.0.0.1:3000/login/alice
//! ```

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod policies;
mod reload;

use std::path::PathBuf;
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
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    let policies = policies::read(file.as_deref())?;
    let limiter = RateLimiter::builder().store_from_env()?.policies(policies.clone()).build()?;
    limiter.clone().install();
    if let Some(file) = file {
        tokio::spawn(reload::forever(file, policies, limiter));
    }

    let app = Router::new().route("/login/{user}", get(login)).route("/search/{term}", get(search));
    let port = std::env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listens on http://{}", listener.local_addr()?);
    axum::serve(listener, app.layer(RateLimitLayer::new())).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tracing::error!("{problem}");
            ExitCode::FAILURE
        }
    }
}

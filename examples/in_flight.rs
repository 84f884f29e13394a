//! Calls in flight: an export that each user runs once at a time, and jobs that go on after their
//! request has ended.
//!
//! ```text
//! cargo run --example in_flight     # then, in two terminals: curl -i http://127.0.0.1:3000/export/alice
//! ```

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, post};
use ratelimit_runtime::{RateLimitError, RateLimiter, Rule, key, rate_limit};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// How long an export, or a job, takes.
const WORK: Duration = Duration::from_secs(2);

/// The call holds its permit until the body has returned, panicked or been dropped.
#[rate_limit(name = "export", key = "<user>", concurrent = 1)]
async fn export(Path(user): Path<String>) -> Result<String, RateLimitError> {
    sleep(WORK).await;
    Ok(format!("all that {user} has"))
}

/// Two jobs at a time for each user. When a process dies, its permits are free after ten seconds.
static JOBS: Rule = Rule::in_flight("jobs", 2).with_lease(Duration::from_secs(10));

/// The request ends at once; the permit moves into the task.
async fn begin_job(Path(user): Path<String>) -> Result<StatusCode, RateLimitError> {
    let permit = RateLimiter::current().enter(&JOBS, &key!("<user>")).await?;
    tokio::spawn(async move {
        sleep(WORK).await;
        drop(permit);
    });
    Ok(StatusCode::ACCEPTED)
}

/// How many jobs of a user run, in all processes.
async fn jobs(Path(user): Path<String>) -> Result<String, RateLimitError> {
    let running = RateLimiter::current()
        .in_flight(&JOBS, &key!("<user>"))
        .await?;
    Ok(format!("{running} of 2"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    RateLimiter::builder().store_from_env()?.build()?.install(); // REDIS_URL, or in memory
    let app = Router::new()
        .route("/export/{user}", get(export))
        .route("/jobs/{user}", post(begin_job).get(jobs));

    let port = std::env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listens on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

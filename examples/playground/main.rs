//! A page that shows the algorithms: send single requests and bursts to two limits side by side,
//! and see on a moving window which are admitted and which are refused. Blocks grow with each
//! offence, and calls are in flight until a click ends them.
//!
//! ```text
//! cargo run --example playground   # then open the address that it prints
//! ```
//!
//! The limits are policies, written as in a configuration file, and kept in memory.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod lane;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse};
use axum::routing::{get, post};
use axum::{Json, Router};
use ratelimit_runtime::RateLimitError;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use lane::{Fired, Lane, Settings, Standing};

/// The lanes of the page, which one user at a time can use.
type Lanes = Arc<Mutex<Vec<Lane>>>;

/// The page could not show more requests apart from each other.
const LARGEST_BURST: u32 = 100;

/// Replaces the lanes by new ones, with empty limits.
async fn set_up(
    State(lanes): State<Lanes>,
    Json(settings): Json<Vec<Settings>>,
) -> Result<(), Problem> {
    let new = settings
        .into_iter()
        .map(Lane::new)
        .collect::<Result<_, _>>()?;
    *lanes.lock().await = new;
    Ok(())
}

#[derive(Deserialize)]
struct Burst {
    count: u32,
    cost: u64,
}

/// Sends a burst of requests to each lane.
async fn fire(
    State(lanes): State<Lanes>,
    Json(burst): Json<Burst>,
) -> Result<Json<Vec<Fired>>, Problem> {
    let mut all = Vec::new();
    for lane in lanes.lock().await.iter_mut() {
        all.push(
            lane.fire(burst.count.min(LARGEST_BURST), burst.cost)
                .await?,
        );
    }
    Ok(Json(all))
}

#[derive(Deserialize)]
struct Next {
    cost: u64,
}

/// Starts a call in each lane, which stays in flight.
async fn begin(
    State(lanes): State<Lanes>,
    Json(next): Json<Next>,
) -> Result<Json<Vec<Fired>>, Problem> {
    let mut all = Vec::new();
    for lane in lanes.lock().await.iter_mut() {
        all.push(lane.begin(next.cost).await?);
    }
    Ok(Json(all))
}

#[derive(Deserialize)]
struct Ended {
    lane: usize,
}

/// Ends the oldest call of a lane.
async fn end(State(lanes): State<Lanes>, Json(ended): Json<Ended>) {
    if let Some(lane) = lanes.lock().await.get_mut(ended.lane) {
        lane.end();
    }
}

/// Says for each lane whether its next request would be admitted.
async fn peek(
    State(lanes): State<Lanes>,
    Json(next): Json<Next>,
) -> Result<Json<Vec<Standing>>, Problem> {
    let mut all = Vec::new();
    for lane in lanes.lock().await.iter() {
        all.push(lane.peek(next.cost).await?);
    }
    Ok(Json(all))
}

/// An error that the page never causes, but a request by hand may.
struct Problem(RateLimitError);

impl From<RateLimitError> for Problem {
    fn from(error: RateLimitError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        (StatusCode::BAD_REQUEST, self.0.to_string()).into_response()
    }
}

fn app() -> Router {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route("/", get(|| async { Html(include_str!("page/index.html")) }))
        .route("/page.css", file("text/css", include_str!("page/page.css")))
        .route(
            "/page.js",
            file("text/javascript", include_str!("page/page.js")),
        )
        .route(
            "/algorithms.js",
            file("text/javascript", include_str!("page/algorithms.js")),
        )
        .route(
            "/timeline.js",
            file("text/javascript", include_str!("page/timeline.js")),
        )
        .route("/lanes", post(set_up))
        .route("/fire", post(fire))
        .route("/begin", post(begin))
        .route("/end", post(end))
        .route("/peek", post(peek))
        .with_state(Lanes::default())
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), String> {
    let port = match std::env::var("PORT") {
        Ok(port) => port.parse().map_err(|_| {
            format!("PORT is a number from 0 (any free port) to 65535, not {port:?}")
        })?,
        Err(_) => 3000,
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        format!("cannot listen on {address}: {error}; PORT=3001 chooses another port")
    })?;
    println!(
        "open http://{}",
        listener.local_addr().map_err(|error| error.to_string())?
    );
    axum::serve(listener, app())
        .await
        .map_err(|error| error.to_string())
}

//! A page that makes the algorithms visible: fire single requests and bursts at two limits side by
//! side, and watch each arrival land as admitted or refused on a moving window. Blocks grow with
//! each offence, and calls are in flight until a click ends them.
//!
//! ```text
//! cargo run --example playground   # then open the address that it prints
//! ```
//!
//! The limits are policies as a configuration file would write them, kept in the memory of this
//! process.

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

/// One person plays at a time.
type Lanes = Arc<Mutex<Vec<Lane>>>;

/// More would not be told apart on the page.
const LARGEST_BURST: u32 = 100;

/// New limits, with nothing used: one for each lane of the page.
async fn set_up(State(lanes): State<Lanes>, Json(settings): Json<Vec<Settings>>) -> Result<(), Problem> {
    let new = settings.into_iter().map(Lane::new).collect::<Result<_, _>>()?;
    *lanes.lock().await = new;
    Ok(())
}

#[derive(Deserialize)]
struct Burst {
    count: u32,
    cost: u64,
}

/// So many requests at once, in each lane.
async fn fire(State(lanes): State<Lanes>, Json(burst): Json<Burst>) -> Result<Json<Vec<Fired>>, Problem> {
    let mut all = Vec::new();
    for lane in lanes.lock().await.iter_mut() {
        all.push(lane.fire(burst.count.min(LARGEST_BURST), burst.cost).await?);
    }
    Ok(Json(all))
}

#[derive(Deserialize)]
struct Next {
    cost: u64,
}

/// A call that goes on, in each lane.
async fn begin(State(lanes): State<Lanes>, Json(next): Json<Next>) -> Result<Json<Vec<Fired>>, Problem> {
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

/// The end of the oldest call of a lane.
async fn end(State(lanes): State<Lanes>, Json(ended): Json<Ended>) {
    if let Some(lane) = lanes.lock().await.get_mut(ended.lane) {
        lane.end();
    }
}

/// How the next request would fare, in each lane.
async fn peek(State(lanes): State<Lanes>, Json(next): Json<Next>) -> Result<Json<Vec<Standing>>, Problem> {
    let mut all = Vec::new();
    for lane in lanes.lock().await.iter() {
        all.push(lane.peek(next.cost).await?);
    }
    Ok(Json(all))
}

/// What no request of the page leads to, but one by hand may.
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
    let file =
        |kind: &'static str, text: &'static str| get(move || async move { ([(header::CONTENT_TYPE, kind)], text) });
    Router::new()
        .route("/", get(|| async { Html(include_str!("page/index.html")) }))
        .route("/page.css", file("text/css", include_str!("page/page.css")))
        .route("/page.js", file("text/javascript", include_str!("page/page.js")))
        .route("/algorithms.js", file("text/javascript", include_str!("page/algorithms.js")))
        .route("/timeline.js", file("text/javascript", include_str!("page/timeline.js")))
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
        Ok(port) => {
            port.parse().map_err(|_| format!("PORT is a number from 0 (any free port) to 65535, not {port:?}"))?
        }
        Err(_) => 3000,
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; PORT=3001 chooses another port"))?;
    println!("open http://{}", listener.local_addr().map_err(|error| error.to_string())?);
    axum::serve(listener, app()).await.map_err(|error| error.to_string())
}

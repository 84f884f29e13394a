//! The remote API: it keeps a list of the calls of the last two seconds, and answers 429 above 20.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

pub(crate) struct Api {
    pub(crate) url: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    recent: VecDeque<Instant>,
    admitted: usize,
    refused: usize,
    /// The highest number of calls in any two seconds, refused calls included.
    most: usize,
}

impl Api {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let seen = Arc::<Mutex<Seen>>::default();
        let app = Router::new()
            .route("/", get(answer))
            .with_state(Arc::clone(&seen));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        tokio::spawn(async { axum::serve(listener, app).await });
        Ok(Self { url, seen })
    }
}

async fn answer(State(seen): State<Arc<Mutex<Seen>>>) -> StatusCode {
    let (mut seen, now) = (lock(&seen), Instant::now());
    seen.recent
        .retain(|call| now.duration_since(*call) < Duration::from_secs(2));
    seen.recent.push_back(now);
    seen.most = seen.most.max(seen.recent.len());
    if seen.recent.len() > 20 {
        seen.refused += 1;
        return StatusCode::TOO_MANY_REQUESTS;
    }
    seen.admitted += 1;
    StatusCode::OK
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen {
            admitted,
            refused,
            most,
            ..
        } = &*lock(&self.seen);
        write!(
            f,
            "the API answered {admitted} calls and refused {refused}; at most {most} of 20 came in \
             any two seconds"
        )
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

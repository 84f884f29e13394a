//! [`arrive`]: calls that come evenly, and do not wait for each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Failure;
use crate::peer::Peer;

/// The only key.
const USER: &str = "user0";

/// One call, by a clock that all threads share.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Right before it and right after it: it was decided in between.
    pub asked: Instant,
    pub answered: Instant,
    pub is_admitted: bool,
}

/// So many calls a second on one key, each of these peers in turn. Timers are right to a
/// millisecond: what is due by then is called at once.
pub async fn arrive(
    peers: &[Arc<Peer>],
    per_second: u32,
    time: Duration,
) -> Result<Vec<Call>, Failure> {
    let start = tokio::time::Instant::now();
    let mut calls = JoinSet::new();
    let count = (f64::from(per_second) * time.as_secs_f64()) as u32;
    for (n, peer) in (0..count).zip(peers.iter().cycle()) {
        let due = start + Duration::from_secs(1) * n / per_second;
        if tokio::time::Instant::now() < due {
            tokio::time::sleep_until(due).await;
        }
        calls.spawn(call(Arc::clone(peer)));
    }
    calls.join_all().await.into_iter().collect()
}

async fn call(peer: Arc<Peer>) -> Result<Call, Failure> {
    let asked = Instant::now();
    let is_admitted = peer.admits(USER).await?;
    Ok(Call {
        asked,
        answered: Instant::now(),
        is_admitted,
    })
}

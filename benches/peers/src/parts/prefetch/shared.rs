//! [`Shared`]: the most that limiters who share a key admit in any window of its limit.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use ratelimit_runtime::Algorithm;

use super::arrivals::{Call, arrive};
use crate::Failure;
use crate::histogram::median;
use crate::peer::{Kind, Peer};
use crate::server::Server;
use crate::work::Rate;

/// The limit, in any second.
pub const MAX: u32 = 10_000;

const WINDOW: Duration = Duration::from_secs(1);

/// Of all limiters together.
const PER_SECOND: u32 = MAX / 2 * 3;

/// Each has a runtime of its own, and on it limiters with a connection of their own.
const THREADS: u32 = 2;
const LIMITERS: usize = 2;

pub const SIDES: [Kind; 7] = [
    Kind::TrypemaHybrid,
    Kind::OnRedis(Algorithm::SlidingWindow),
    Kind::Prefetching(Algorithm::SlidingWindow),
    Kind::Prefetching(Algorithm::SlidingCounter),
    Kind::Prefetching(Algorithm::FixedWindow),
    Kind::Prefetching(Algorithm::TokenBucket),
    Kind::Prefetching(Algorithm::LeakyBucket),
];

#[derive(Debug, Clone, Copy)]
pub struct Shared {
    /// Admitted in a window, at the most.
    pub most: f64,
    /// Admitted a second, of all.
    pub per_second: f64,
}

impl Shared {
    /// The worst window of all runs, and the median of the rest.
    pub fn worst(runs: &[Self]) -> Self {
        Self {
            most: runs.iter().map(|run| run.most).fold(0.0, f64::max),
            per_second: median(runs.iter().map(|run| run.per_second).collect()),
        }
    }

    /// Blocks. Of a key that is fresh at first, which is when the most is free.
    pub fn measure(kind: Kind, server: &Server, time: Duration) -> Result<Self, Failure> {
        server.empty()?;
        let ready = Barrier::new(THREADS as usize);
        let start = Instant::now();
        let calls = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| scope.spawn(|| share(kind, server, &ready, time)))
                .collect();
            let calls = threads.into_iter().map(|thread| {
                let calls = thread.join();
                calls.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            calls.collect::<Result<Vec<_>, Failure>>()
        })?;
        let admitted = calls.concat().into_iter().filter(|call| call.is_admitted);
        let admitted: Vec<_> = admitted
            .map(|call| (call.asked - start, call.answered - start))
            .collect();
        Ok(Self {
            most: most(&admitted, WINDOW)? as f64,
            per_second: admitted.len() as f64 / time.as_secs_f64(),
        })
    }
}

/// The most that an algorithm admits in a window; that of others is not said, but meant.
pub fn bound(kind: Kind) -> u32 {
    match kind {
        Kind::Prefetching(Algorithm::SlidingCounter | Algorithm::LeakyBucket) => 2 * MAX - 1,
        Kind::Prefetching(Algorithm::FixedWindow | Algorithm::TokenBucket) => 2 * MAX,
        _ => MAX,
    }
}

/// The share of one thread.
fn share(
    kind: Kind,
    server: &Server,
    ready: &Barrier,
    time: Duration,
) -> Result<Vec<Call>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let opened = open(kind, server).await;
        // Also where that has failed: the other thread waits.
        ready.wait();
        arrive(&opened?, PER_SECOND / THREADS, time).await
    })
}

async fn open(kind: Kind, server: &Server) -> Result<Vec<Arc<Peer>>, Failure> {
    let mut peers = Vec::new();
    for _ in 0..LIMITERS {
        let rate = Rate {
            max: MAX,
            window: WINDOW,
        };
        peers.push(Arc::new(Peer::open(kind, server, rate).await?));
    }
    Ok(peers)
}

/// The most admissions that lie, from before the call to after it, in one window, wherever that
/// begins: so many were certainly admitted within it.
fn most(admitted: &[(Duration, Duration)], window: Duration) -> Result<usize, Failure> {
    if admitted
        .iter()
        .any(|(asked, answered)| *answered - *asked >= window)
    {
        return Err("a call took longer than a window".into());
    }
    let (mut asked, mut answered): (Vec<_>, Vec<_>) = admitted.iter().copied().unzip();
    asked.sort_unstable();
    answered.sort_unstable();
    // A window that begins with a call: no call that was asked before it ends behind it.
    let within = asked.iter().enumerate().map(|(before, start)| {
        let until = answered.partition_point(|answered| *answered < *start + window);
        until - before
    });
    Ok(within.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_window_is_found_and_what_only_reaches_into_it_is_not_counted() {
        let at = Duration::from_millis;
        let calls = [
            (0, 1),
            (500, 510),
            (700, 701),
            (1_400, 1_499),
            (1_450, 1_500),
            (1_800, 1_801),
        ];
        let calls = calls.map(|(asked, answered)| (at(asked), at(answered)));
        // Three lie whole in a window; of 500 to 1,500 the last one only reaches its end.
        assert_eq!(most(&calls, at(1_000)).unwrap(), 3);
        assert_eq!(most(&calls[..3], at(1_000)).unwrap(), 3);
        assert_eq!(most(&calls[..3], at(100)).unwrap(), 1);
        assert!(most(&calls, at(50)).is_err());
        assert_eq!(most(&[], at(50)).unwrap(), 0);
    }
}

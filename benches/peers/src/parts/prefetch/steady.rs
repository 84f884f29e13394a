//! [`Steady`]: what a steady load of one process asks the server, under a limit of twice that.

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::Algorithm;

use super::arrivals::arrive;
use crate::Failure;
use crate::histogram::{Histogram, median};
use crate::peer::{Kind, Peer};
use crate::server::Server;
use crate::work::Rate;

pub const PER_SECOND: u32 = 10_000;

const WINDOW: Duration = Duration::from_secs(5);

/// Long enough for what is called seldom to be known as busy, and for a lease to end.
const WARM_UP: Duration = Duration::from_millis(500);

pub const SIDES: [Kind; 5] = [
    Kind::TrypemaHybrid,
    Kind::OnRedis(Algorithm::SlidingWindow),
    Kind::OnRedis(Algorithm::LeakyBucket),
    Kind::Prefetching(Algorithm::SlidingWindow),
    Kind::Prefetching(Algorithm::LeakyBucket),
];

#[derive(Debug, Clone, Copy)]
pub struct Steady {
    /// Commands sent per decision.
    pub calls: f64,
    /// Of a call, in microseconds.
    pub p50: f64,
    pub p99: f64,
}

impl Steady {
    pub fn median(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.iter().map(figure).collect());
        Self {
            calls: of(|run| run.calls),
            p50: of(|run| run.p50),
            p99: of(|run| run.p99),
        }
    }

    pub async fn measure(kind: Kind, server: &Server, time: Duration) -> Result<Self, Failure> {
        server.empty()?;
        let rate = Rate {
            max: 2 * PER_SECOND * WINDOW.as_secs() as u32,
            window: WINDOW,
        };
        let peers = [Arc::new(Peer::open(kind, server, rate).await?)];
        arrive(&peers, PER_SECOND, WARM_UP).await?;
        server.count_anew()?;
        let calls = arrive(&peers, PER_SECOND, time).await?;
        let work = server.work()?;
        let mut took = Histogram::new();
        for call in &calls {
            if !call.is_admitted {
                return Err("a call was refused under a limit of twice the load".into());
            }
            took.add(u64::try_from((call.answered - call.asked).as_nanos())?);
        }
        Ok(Self {
            calls: work.calls as f64 / calls.len() as f64,
            p50: took.quantile(0.5) / 1e3,
            p99: took.quantile(0.99) / 1e3,
        })
    }
}

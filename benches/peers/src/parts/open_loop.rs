//! An open loop: callers arrive at random times and do not wait for each other, as requests of a
//! service do. Latency counts from the planned arrival, so a side that falls behind is seen to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_runtime::Algorithm;
use tokio::sync::mpsc::{self, UnboundedSender};

use crate::Failure;
use crate::histogram::{Histogram, median};
use crate::parts::throughput::Throughput;
use crate::peer::{Kind, Peer};
use crate::progress;
use crate::server::Server;
use crate::table::{Table, number};
use crate::work::{DISTINCT, Keys, WINDOW, Work};

const WORK: Work = Work {
    name: "open loop",
    keys: DISTINCT,
    callers: 1,
};

/// Arrivals of one run.
const TIME: Duration = Duration::from_millis(500);

/// How long after the last arrival an answer may come; then a call is lost.
const GRACE: Duration = Duration::from_secs(1);

/// Shares of the fastest side's capacity.
const SHARES: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 1.0];

/// The share of redis-cell's capacity at which sides are compared with a budget.
const KNEE: f64 = 0.8;

/// Who is asked; `None` answers at once, and shows what the machine and the load program take.
pub const SIDES: [(Option<Kind>, &str); 5] = [
    (None, "nothing is called"),
    (Some(Kind::ArticleZset), "ZSET Lua from articles"),
    (Some(Kind::RedisCell), "redis-cell"),
    (
        Some(Kind::OnRedis(Algorithm::SlidingWindow)),
        "this crate, sliding_window",
    ),
    (
        Some(Kind::OnRedis(Algorithm::LeakyBucket)),
        "this crate, leaky_bucket",
    ),
];

/// Decisions per second with 512 callers that wait for each answer: of redis-cell, and of the
/// fastest side.
#[derive(Debug, Clone, Copy)]
pub struct Capacities {
    cell: f64,
    fastest: f64,
}

pub fn capacities(throughput: &Throughput) -> Result<Capacities, Failure> {
    let rate = |kind| {
        throughput
            .of(kind, DISTINCT, 512)
            .map(|figures| figures.per_second)
    };
    let fastest = SIDES
        .iter()
        .filter_map(|(kind, _)| rate((*kind)?))
        .fold(f64::NAN, f64::max);
    // Without the module, the articles' script stands for it.
    let cell = rate(Kind::RedisCell)
        .or(rate(Kind::ArticleZset))
        .ok_or("nothing was measured")?;
    Ok(Capacities { cell, fastest })
}

/// One side at one rate of arrivals; times in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub side: usize,
    /// Planned arrivals per second.
    pub rate: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    /// The share of calls without an answer, or with a wrong one.
    pub lost: f64,
}

pub struct OpenLoop {
    knee: f64,
    pub points: Vec<Point>,
}

impl OpenLoop {
    pub async fn measure(server: &Server, capacities: Capacities, rounds: usize) -> Self {
        let knee = KNEE * capacities.cell;
        let mut rates: Vec<f64> = SHARES
            .iter()
            .map(|share| share * capacities.fastest)
            .collect();
        rates.push(knee);
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let cases = rates
            .iter()
            .flat_map(|rate| (0..SIDES.len()).map(move |side| (side, *rate)));
        let mut runs: Vec<(usize, f64, Vec<Point>)> =
            cases.map(|(side, rate)| (side, rate, Vec::new())).collect();
        for round in 0..rounds {
            progress(format_args!("open loop, round {} of {rounds}", round + 1));
            for (side, rate, points) in &mut runs {
                match point(server, *side, *rate, round as u64).await {
                    Ok(point) => points.push(point),
                    Err(error) => progress(format_args!("{}: {error}", SIDES[*side].1)),
                }
            }
        }
        let points = runs
            .into_iter()
            .filter(|(.., points)| !points.is_empty())
            .map(|(side, rate, points)| {
                let of = |figure: fn(&Point) -> f64| median(points.iter().map(figure).collect());
                let most = points.iter().map(|point| point.lost).fold(0.0, f64::max);
                Point {
                    side,
                    rate,
                    p50: of(|p| p.p50),
                    p99: of(|p| p.p99),
                    p999: of(|p| p.p999),
                    lost: most,
                }
            });
        Self {
            knee,
            points: points.collect(),
        }
    }

    /// At [`KNEE`]: the p50 of a side of this crate against redis-cell's, and the share it lost.
    pub fn at_the_knee(&self, algorithm: Algorithm) -> (f64, f64) {
        let of = |kind| {
            self.points
                .iter()
                .find(|point| point.rate == self.knee && SIDES[point.side].0 == Some(kind))
        };
        match (of(Kind::OnRedis(algorithm)), of(Kind::RedisCell)) {
            (Some(ours), Some(cell)) => (ours.p50 / cell.p50, ours.lost),
            (Some(ours), None) => (f64::NAN, ours.lost),
            _ => (f64::NAN, f64::NAN),
        }
    }

    pub fn report(&self) -> String {
        let mut text = String::new();
        for (side, (_, name)) in SIDES.iter().enumerate() {
            let mut table = Table::new([
                *name,
                "arrivals/s",
                "p50 µs",
                "p99 µs",
                "p99.9 µs",
                "lost calls",
            ]);
            for point in self.points.iter().filter(|point| point.side == side) {
                let note = if point.rate == self.knee {
                    "0.8 of redis-cell's capacity"
                } else {
                    ""
                };
                let lost = if point.lost == 0.0 {
                    "none".to_owned()
                } else {
                    format!("{:.2} %", 100.0 * point.lost)
                };
                table.row([
                    note.to_owned(),
                    number(point.rate),
                    number(point.p50),
                    number(point.p99),
                    number(point.p999),
                    lost,
                ]);
            }
            text += &format!("\n{table}");
        }
        text.trim_start().to_owned()
    }
}

/// What became of one call.
struct Answer {
    took: Duration,
    admitted: bool,
}

async fn point(server: &Server, side: usize, rate: f64, seed: u64) -> Result<Point, Failure> {
    server.empty()?;
    let peer = match SIDES[side].0 {
        Some(kind) => Some(Arc::new(Peer::open(kind, server, WORK.max()).await?)),
        None => None,
    };
    let (answers, mut answered) = mpsc::unbounded_channel();
    let planned = arrive(peer, rate, seed, answers).await;
    let mut took = Histogram::new();
    let mut right = 0_u64;
    let deadline = tokio::time::Instant::now() + GRACE;
    // The channel ends with the last call.
    while let Ok(Some(Answer {
        took: time,
        admitted,
    })) = tokio::time::timeout_at(deadline, answered.recv()).await
    {
        took.add(time.as_nanos() as u64);
        right += u64::from(admitted);
    }
    let of = |share| took.quantile(share) / 1e3;
    let lost = 1.0 - right as f64 / planned as f64;
    Ok(Point {
        side,
        rate,
        p50: of(0.5),
        p99: of(0.99),
        p999: of(0.999),
        lost,
    })
}

/// Starts a task for each arrival; says how many there were.
async fn arrive(
    peer: Option<Arc<Peer>>,
    rate: f64,
    seed: u64,
    answers: UnboundedSender<Answer>,
) -> u64 {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (seed + 1));
    let start = Instant::now();
    let (mut planned, mut call) = (Duration::ZERO, 0);
    loop {
        while planned <= start.elapsed() {
            if planned > TIME {
                return call;
            }
            let (peer, answers, key, at) = (
                peer.clone(),
                answers.clone(),
                WORK.key(0, call),
                start + planned,
            );
            tokio::spawn(async move {
                let admitted = match peer {
                    Some(peer) => peer.admits(&format!("user{key}")).await.unwrap_or(false),
                    None => true,
                };
                let _ = answers.send(Answer {
                    took: at.elapsed(),
                    admitted,
                });
            });
            call += 1;
            planned += Duration::from_secs_f64(random.exponential() / rate);
        }
        tokio::task::yield_now().await;
    }
}

/// SplitMix64: arrivals need no better one, and are the same for all sides of a round.
struct Random(u64);

impl Random {
    /// Of mean 1.
    fn exponential(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        -((z >> 11) as f64 + 0.5)
            .mul_add(-(2f64.powi(-53)), 1.0)
            .ln()
    }
}

/// No key may be used up by a run.
const _: () = {
    let Keys::Among(keys) = DISTINCT else {
        panic!("the keys are taken in turn")
    };
    assert!(keys * 50 * 2 > 2_000_000 * TIME.as_millis() as u64 / 1_000 && WINDOW.as_secs() > 60);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_mean_and_spread_of_a_poisson_process() {
        let mut random = Random(1);
        let gaps: Vec<f64> = (0..100_000).map(|_| random.exponential()).collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(
            (mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05,
            "{mean} {variance}"
        );
    }
}

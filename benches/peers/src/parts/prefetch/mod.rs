//! [`Prefetch`]: what a process gains that takes units of a busy key ahead, beside a peer that
//! tells Redis afterwards, and beside those that ask for each call.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::Algorithm;

use self::shared::Shared;
use self::steady::Steady;
use crate::measure::{Figures, measure};
use crate::parts::callers::ZSETS;
use crate::peer::Kind;
use crate::peer::ours::LEASE;
use crate::server::Server;
use crate::table::{Table, number, ratio};
use crate::work::{HOT, Work};
use crate::{Failure, progress};

mod arrivals;
pub mod shared;
pub mod steady;

/// Of the peers the faster setting counts.
const SIDES: [Kind; 15] = [
    Kind::ArticleZset,
    Kind::ArticleZsetAsMade,
    Kind::RedisCell,
    Kind::RedisCellAsMade,
    Kind::TrypemaHybrid,
    Kind::OnRedis(Algorithm::SlidingWindow),
    Kind::OnRedis(Algorithm::SlidingCounter),
    Kind::OnRedis(Algorithm::FixedWindow),
    Kind::OnRedis(Algorithm::TokenBucket),
    Kind::OnRedis(Algorithm::LeakyBucket),
    Kind::Prefetching(Algorithm::SlidingWindow),
    Kind::Prefetching(Algorithm::SlidingCounter),
    Kind::Prefetching(Algorithm::FixedWindow),
    Kind::Prefetching(Algorithm::TokenBucket),
    Kind::Prefetching(Algorithm::LeakyBucket),
];

/// On one key, all admitted.
const MANY: u64 = 512;
const CALLERS: [u64; 2] = [MANY, 1];

/// How often, and for how long, each side is measured.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    pub count: usize,
    pub waiting: Duration,
    pub steady: Duration,
    pub shared: Duration,
}

pub struct Prefetch {
    /// By callers that wait for each answer.
    waiting: Vec<((Kind, u64), Figures)>,
    steady: Vec<(Kind, Steady)>,
    shared: Vec<(Kind, Shared)>,
    failures: BTreeSet<String>,
}

impl Prefetch {
    pub async fn measure(server: &Arc<Server>, rounds: Rounds) -> Self {
        let mut waiting = runs(
            CALLERS
                .iter()
                .flat_map(|callers| SIDES.map(|kind| (kind, *callers))),
        );
        let (mut steady, mut shared) = (runs(steady::SIDES), runs(shared::SIDES));
        let mut failures = BTreeSet::new();
        for round in 1..=rounds.count {
            progress(format_args!("prefetch, round {round} of {}", rounds.count));
            for ((kind, callers), runs) in &mut waiting {
                let work = Work {
                    name: "one hot key",
                    keys: HOT,
                    callers: *callers,
                };
                let run = measure(*kind, work, server, rounds.waiting).await;
                keep(runs, run, *kind, &mut failures);
                given_back().await;
            }
            for (kind, runs) in &mut steady {
                let run = Steady::measure(*kind, server, rounds.steady).await;
                keep(runs, run, *kind, &mut failures);
                given_back().await;
            }
            for (kind, runs) in &mut shared {
                let (server, side) = (Arc::clone(server), *kind);
                let run = move || Shared::measure(side, &server, rounds.shared);
                let run = tokio::task::spawn_blocking(run).await;
                keep(
                    runs,
                    run.unwrap_or_else(|error| Err(error.into())),
                    side,
                    &mut failures,
                );
            }
        }
        Self {
            waiting: medians(waiting, Figures::median),
            steady: medians(steady, Steady::median),
            shared: medians(shared, Shared::worst),
            failures,
        }
    }

    fn of(&self, kind: Kind, callers: u64) -> Option<&Figures> {
        found(&self.waiting, &(kind, callers))
    }

    /// How many times the better setting of the articles' script this side decides, on one key.
    pub fn against_by_hand(&self, kind: Kind) -> f64 {
        let rate = |kind| self.of(kind, MANY).map_or(f64::NAN, |of| of.per_second);
        rate(kind) / rate(ZSETS[0]).max(rate(ZSETS[1]))
    }

    /// Of a check of one caller that waits for each answer, in microseconds.
    pub fn alone(&self, kind: Kind) -> f64 {
        self.of(kind, 1).map_or(f64::NAN, |of| of.p50)
    }

    pub fn steady(&self, kind: Kind) -> Option<&Steady> {
        found(&self.steady, &kind)
    }

    /// The most that was admitted in any window.
    pub fn most(&self, kind: Kind) -> f64 {
        found(&self.shared, &kind).map_or(f64::NAN, |shared| shared.most)
    }

    pub fn report(&self) -> String {
        let mut text = String::new();
        for callers in CALLERS {
            let who = if callers == 1 {
                "one caller"
            } else {
                "512 callers"
            };
            let _ = writeln!(text, "### One hot key, {who}\n\n{}", self.waited(callers));
        }
        let _ = writeln!(
            text,
            "### {} calls a second of one process, evenly, under twice that\n\n{}",
            number(steady::PER_SECOND.into()),
            self.came_steadily()
        );
        let _ = writeln!(
            text,
            "### Four limiters on one key, offered 1.5 times its limit of {} a second\n\n{}",
            number(shared::MAX.into()),
            self.was_shared()
        );
        for failure in &self.failures {
            let _ = writeln!(text, "A round is missing. {failure}\n");
        }
        text
    }

    fn waited(&self, callers: u64) -> Table {
        let mut table = Table::new([
            "",
            "decisions/s",
            "× the better ZSET Lua",
            "p50 µs",
            "p99 µs",
            "Redis calls each",
            "server µs each",
        ]);
        for kind in SIDES {
            let Some(figures) = self.of(kind, callers) else {
                continue;
            };
            let against = if callers == MANY {
                ratio(self.against_by_hand(kind))
            } else {
                String::new()
            };
            table.row([
                kind.name(),
                number(figures.per_second),
                against,
                number(figures.p50),
                number(figures.p99),
                small(figures.calls),
                number(figures.server),
            ]);
        }
        table
    }

    fn came_steadily(&self) -> Table {
        let mut table = Table::new(["", "Redis calls each", "p50 µs", "p99 µs"]);
        for (kind, steady) in &self.steady {
            table.row([
                kind.name(),
                small(steady.calls),
                number(steady.p50),
                number(steady.p99),
            ]);
        }
        table
    }

    fn was_shared(&self) -> Table {
        let mut table = Table::new([
            "",
            "most admitted in any second",
            "bound",
            "× the limit",
            "admitted/s",
        ]);
        for (kind, Shared { most, per_second }) in &self.shared {
            table.row([
                kind.name(),
                format!("{most:.0}"),
                shared::bound(*kind).to_string(),
                format!("{:.3} ×", most / f64::from(shared::MAX)),
                number(*per_second),
            ]);
        }
        table
    }
}

/// What is left of a side's leases is given back before the next one is measured.
async fn given_back() {
    tokio::time::sleep(LEASE * 3 / 2).await;
}

/// Sides, each with its runs.
type Runs<S, R> = Vec<(S, Vec<R>)>;

fn runs<S, R>(sides: impl IntoIterator<Item = S>) -> Runs<S, R> {
    sides.into_iter().map(|side| (side, Vec::new())).collect()
}

fn keep<R>(
    runs: &mut Vec<R>,
    run: Result<R, Failure>,
    kind: Kind,
    failures: &mut BTreeSet<String>,
) {
    match run {
        Ok(run) => runs.push(run),
        Err(error) => {
            failures.insert(format!("{}: {}", kind.name(), in_full(&*error)));
        }
    }
}

/// An error, and what it came from.
fn in_full(error: &dyn Error) -> String {
    let cause = error.source().map(|cause| format!(": {}", in_full(cause)));
    format!("{error}{}", cause.unwrap_or_default())
}

fn medians<S, R>(sides: Runs<S, R>, median: fn(&[R]) -> R) -> Vec<(S, R)> {
    let measured = sides.into_iter().filter(|(_, runs)| !runs.is_empty());
    measured.map(|(side, runs)| (side, median(&runs))).collect()
}

fn found<'a, S: PartialEq, R>(sides: &'a [(S, R)], side: &S) -> Option<&'a R> {
    sides.iter().find(|(of, _)| of == side).map(|(_, run)| run)
}

/// To a ten-thousandth.
fn small(figure: f64) -> String {
    format!("{figure:.4}")
}

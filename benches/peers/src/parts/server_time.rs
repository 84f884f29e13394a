//! What one decision costs the server, alone on the wire, against the articles' sorted set: in
//! rounds, as medians.

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::{Algorithm, Limit};

use crate::Failure;
use crate::histogram::median;
use crate::measure::fill;
use crate::peer::{Kind, Peer, ours};
use crate::progress;
use crate::server::Server;
use crate::table::{Table, number, ratio};
use crate::work::WINDOW;

/// Admissions measured on each key.
const ADMISSIONS: u32 = 5;

/// What the server keeps, and how it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Case {
    pub bucket: Bucket,
    /// Admissions that are there already.
    pub entries: u32,
    pub admitted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bucket {
    ArticleZset,
    /// A sliding window: a sorted set.
    Log {
        limits: u32,
    },
    /// All of one number: counters, and the two buckets.
    Counter(Algorithm, u32),
}

/// The rows of the page, each admitted and refused; the articles' are what the others are compared
/// with.
pub fn cases() -> Vec<Case> {
    let mut buckets = vec![(Bucket::ArticleZset, 5), (Bucket::ArticleZset, 100)];
    buckets.extend([1, 2].map(|limits| (Bucket::Log { limits }, 5)));
    buckets.extend([(Bucket::Log { limits: 1 }, 100)]);
    for algorithm in [
        Algorithm::FixedWindow,
        Algorithm::SlidingCounter,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ] {
        buckets.extend([
            (Bucket::Counter(algorithm, 1), 5),
            (Bucket::Counter(algorithm, 2), 5),
        ]);
    }
    let both = |(bucket, entries)| {
        [true, false].map(|admitted| Case {
            bucket,
            entries,
            admitted,
        })
    };
    buckets.into_iter().flat_map(both).collect()
}

impl Case {
    pub fn name(&self) -> String {
        let limits = |limits| {
            if limits == 1 {
                String::new()
            } else {
                format!(", {limits} limits")
            }
        };
        match self.bucket {
            Bucket::ArticleZset => format!("the articles' ZSET Lua, {} entries", self.entries),
            Bucket::Log { limits: n } => {
                format!("sliding_window, {} entries{}", self.entries, limits(n))
            }
            Bucket::Counter(algorithm, n) => format!("{algorithm}{}", limits(n)),
        }
    }

    /// What it is compared with.
    fn article(&self) -> Self {
        Self {
            bucket: Bucket::ArticleZset,
            ..*self
        }
    }

    /// Two peers of the same bucket, so that the one that is measured has not seen what the other
    /// was told.
    async fn open(&self, server: &Server) -> Result<(Peer, Peer), Failure> {
        let max = self.entries + if self.admitted { ADMISSIONS } else { 0 };
        let (algorithm, limits) = match self.bucket {
            Bucket::ArticleZset => {
                return Ok((
                    Peer::open(Kind::ArticleZset, server, max).await?,
                    Peer::open(Kind::ArticleZset, server, max).await?,
                ));
            }
            Bucket::Log { limits } => (Algorithm::SlidingWindow, limits),
            Bucket::Counter(algorithm, limits) => (algorithm, limits),
        };
        let mut rule = ours::rule(algorithm, max);
        for limit in 1..limits {
            rule = rule.and(Limit::new(
                u64::from(max),
                WINDOW + Duration::from_secs(limit.into()),
            ));
        }
        Ok((
            Peer::Ours(ours::Ours::with_rule(server, rule.clone()).await?),
            Peer::Ours(ours::Ours::with_rule(server, rule).await?),
        ))
    }

    /// The server's microseconds per decision, for one caller on so many keys.
    async fn measure(&self, server: &Server, keys: u64) -> Result<f64, Failure> {
        server.empty()?;
        let (filler, asker) = self.open(server).await?;
        fill(Arc::new(filler), keys, self.entries).await?;
        // The first call loads the script.
        asker.admits("nobody").await?;
        server.count_anew()?;
        // A refusal may be remembered, so each key is refused once.
        let asks = if self.admitted { ADMISSIONS } else { 1 };
        for _ in 0..asks {
            for key in 0..keys {
                if asker.admits(&format!("user{key}")).await? != self.admitted {
                    return Err(format!("{}: not what it was to be", self.name()).into());
                }
            }
        }
        let work = server.work()?;
        Ok(work.microseconds as f64 / (keys * u64::from(asks)) as f64)
    }
}

/// Medians, in the order of the cases.
pub struct ServerTime(Vec<(Case, f64)>);

impl ServerTime {
    pub async fn measure(server: &Server, cases: Vec<Case>, rounds: usize, keys: u64) -> Self {
        let mut runs: Vec<(Case, Vec<f64>)> =
            cases.into_iter().map(|case| (case, Vec::new())).collect();
        for round in 0..rounds {
            progress(format_args!("server time: round {} of {rounds}", round + 1));
            for (case, runs) in &mut runs {
                match case.measure(server, keys).await {
                    Ok(figure) => runs.push(figure),
                    Err(error) => {
                        progress(format_args!("a round is missing: {}: {error}", case.name()))
                    }
                }
            }
        }
        Self(
            runs.into_iter()
                .map(|(case, runs)| (case, median(runs)))
                .collect(),
        )
    }

    pub fn of(&self, case: Case) -> f64 {
        self.0
            .iter()
            .find(|(other, _)| *other == case)
            .map_or(f64::NAN, |(_, figure)| *figure)
    }

    /// Times the articles' script, with as many entries and the same answer.
    pub fn ratio(&self, bucket: Bucket, entries: u32, admitted: bool) -> f64 {
        let case = Case {
            bucket,
            entries,
            admitted,
        };
        self.of(case) / self.of(case.article())
    }

    pub fn report(&self) -> String {
        let mut table = Table::new([
            "server µs per decision",
            "admitted",
            "× ZSET Lua",
            "refused",
            "× ZSET Lua",
        ]);
        for (case, admitted) in self.0.iter().filter(|(case, _)| case.admitted) {
            let refused = self.of(Case {
                admitted: false,
                ..*case
            });
            table.row([
                case.name(),
                number(*admitted),
                ratio(self.ratio(case.bucket, case.entries, true)),
                number(refused),
                ratio(self.ratio(case.bucket, case.entries, false)),
            ]);
        }
        table.to_string()
    }
}

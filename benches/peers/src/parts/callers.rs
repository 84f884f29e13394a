//! [`Callers`]: decisions per second and latency by the number of callers, near the server and far
//! from it, under small and large limits, and on a Cluster.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use ratelimit_runtime::Algorithm;

use crate::measure::{Figures, measure};
use crate::peer::Kind;
use crate::server::Server;
use crate::table::{Table, number, ratio};
use crate::work::{DISTINCT, Keys, LARGE, Work};
use crate::{Failure, progress};

pub const CALLERS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 512];

const LOG: Kind = Kind::OnRedis(Algorithm::SlidingWindow);
const BUCKET: Kind = Kind::OnRedis(Algorithm::LeakyBucket);

pub const SIDES: [Kind; 6] = [
    Kind::ArticleZset,
    Kind::ArticleZsetAsMade,
    Kind::RedisCell,
    Kind::RedisCellAsMade,
    LOG,
    BUCKET,
];

/// Both settings of each peer.
pub const ZSETS: [Kind; 2] = [Kind::ArticleZset, Kind::ArticleZsetAsMade];
pub const CELLS: [Kind; 2] = [Kind::RedisCell, Kind::RedisCellAsMade];
pub const CLUSTERED: [Kind; 2] = [Kind::ClusteredZset, Kind::ClusteredZsetAsMade];

/// The masters of the Cluster.
const MASTERS: usize = 3;

/// How far the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    Near,
    Far,
    /// Near all masters of a Cluster.
    Cluster,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Near => "near (loopback)",
            Self::Far => "far (0.6 ms there and back)",
            Self::Cluster => "a Cluster of three masters (loopback)",
        })
    }
}

/// What is measured.
struct Case {
    distance: Distance,
    keys: Keys,
    limit: &'static str,
    sides: &'static [Kind],
    /// A side of this crate, and the peer beside it in both settings.
    ratios: &'static [(&'static str, Kind, [Kind; 2])],
}

const ZSET: (&str, Kind, [Kind; 2]) = ("log, × the better ZSET Lua", LOG, ZSETS);
const CELL: (&str, Kind, [Kind; 2]) = ("bucket, × the better redis-cell", BUCKET, CELLS);

const CASES: [Case; 4] = [
    Case {
        distance: Distance::Near,
        keys: DISTINCT,
        limit: "100 an hour",
        sides: &SIDES,
        ratios: &[ZSET, CELL],
    },
    Case {
        distance: Distance::Far,
        keys: DISTINCT,
        limit: "100 an hour",
        sides: &SIDES,
        ratios: &[ZSET, CELL],
    },
    // A log of a million entries has no use.
    Case {
        distance: Distance::Near,
        keys: LARGE,
        limit: "1,000,000 a day",
        sides: &[CELLS[0], CELLS[1], BUCKET],
        ratios: &[CELL],
    },
    Case {
        distance: Distance::Cluster,
        keys: DISTINCT,
        limit: "100 an hour",
        sides: &[CLUSTERED[0], CLUSTERED[1], LOG, BUCKET],
        ratios: &[
            ("log, × the better ZSET Lua", LOG, CLUSTERED),
            ("bucket, × the better ZSET Lua", BUCKET, CLUSTERED),
        ],
    },
];

/// The medians of one side.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub distance: Distance,
    pub keys: Keys,
    pub side: Kind,
    pub callers: u64,
    pub figures: Figures,
}

pub struct Callers {
    workers: usize,
    points: Vec<Point>,
    failures: BTreeSet<String>,
}

impl Callers {
    pub async fn measure(server: &Server, workers: usize, rounds: usize, time: Duration) -> Self {
        let (mut points, mut failures) = (Vec::new(), BTreeSet::new());
        for case in &CASES {
            let Case {
                distance, limit, ..
            } = case;
            progress(format_args!(
                "callers, workers: {workers}, {distance}, {limit}"
            ));
            match measure_case(server, case, rounds, time, &mut failures).await {
                Ok(measured) => points.extend(measured),
                Err(error) => {
                    failures.insert(format!("{distance}: {error}"));
                }
            }
        }
        Self {
            workers,
            points,
            failures,
        }
    }

    pub fn of(&self, distance: Distance, keys: Keys, side: Kind, callers: u64) -> Option<Figures> {
        let found = self.points.iter().find(|point| {
            point.distance == distance
                && point.keys == keys
                && point.side == side
                && point.callers == callers
        });
        found.map(|point| point.figures)
    }

    /// How many times the better of two peers this side decides.
    pub fn against(
        &self,
        (distance, keys): (Distance, Keys),
        side: Kind,
        peers: [Kind; 2],
        callers: u64,
    ) -> f64 {
        let rate = |side| {
            self.of(distance, keys, side, callers)
                .map_or(f64::NAN, |figures| figures.per_second)
        };
        rate(side) / rate(peers[0]).max(rate(peers[1]))
    }

    /// For each case a table of decisions per second, one of p50, and the ratios to the better of
    /// both settings of each peer.
    pub fn report(&self) -> String {
        let workers = if self.workers == 1 {
            "one worker".to_owned()
        } else {
            format!("{} workers", self.workers)
        };
        let mut text = String::new();
        for Case {
            distance,
            keys,
            limit,
            sides,
            ratios,
        } in &CASES
        {
            let of = |side, callers| self.of(*distance, *keys, side, callers);
            let title = format!("{distance}, {limit}, {workers}");
            for (what, figure) in [
                (
                    "decisions/s",
                    (|figures| figures.per_second) as fn(&Figures) -> f64,
                ),
                ("p50 µs", |figures| figures.p50),
            ] {
                let head = CALLERS.map(|callers| callers.to_string());
                let mut table = Table::new(std::iter::once(what.to_owned()).chain(head));
                for side in *sides {
                    let cells = CALLERS.map(|callers| {
                        let figures = of(*side, callers);
                        figures.map_or(String::new(), |figures| number(figure(&figures)))
                    });
                    table.row(std::iter::once(side.name()).chain(cells));
                }
                if what == "decisions/s" {
                    for (name, side, peers) in *ratios {
                        let cells = CALLERS.map(|callers| {
                            ratio(self.against((*distance, *keys), *side, *peers, callers))
                        });
                        table.row(std::iter::once((*name).to_owned()).chain(cells));
                    }
                    let _ = writeln!(text, "### By callers, {title}\n");
                    if *distance == Distance::Cluster {
                        text += "All are on the same machine; the articles' Lua is sent over the \
                            connection of redis-rs to a Cluster.\n\n";
                    }
                }
                let _ = writeln!(text, "{table}");
            }
        }
        for failure in &self.failures {
            let _ = writeln!(text, "A round is missing. {failure}\n");
        }
        text
    }
}

async fn measure_case(
    server: &Server,
    &Case {
        distance,
        keys,
        sides,
        ..
    }: &Case,
    rounds: usize,
    time: Duration,
    failures: &mut BTreeSet<String>,
) -> Result<Vec<Point>, Failure> {
    let _far = match distance {
        Distance::Far => Some(server.far()?),
        Distance::Near | Distance::Cluster => None,
    };
    let cluster = match distance {
        Distance::Cluster => Some(Server::start_cluster(MASTERS)?),
        Distance::Near | Distance::Far => None,
    };
    let server = cluster.as_ref().unwrap_or(server);
    let sides = sides.iter().copied();
    let mut runs: Vec<(Kind, u64, Vec<Figures>)> = sides
        .flat_map(|side| CALLERS.map(|callers| (side, callers, Vec::new())))
        .collect();
    for _ in 0..rounds {
        for (side, callers, runs) in &mut runs {
            let work = Work {
                name: "distinct keys",
                keys,
                callers: *callers,
            };
            match measure(*side, work, server, time).await {
                Ok(figures) => runs.push(figures),
                Err(error) => {
                    failures.insert(format!("{}, {callers} callers: {error}", side.name()));
                }
            }
        }
    }
    let medians = runs.into_iter().filter(|(.., runs)| !runs.is_empty());
    Ok(medians
        .map(|(side, callers, runs)| Point {
            distance,
            keys,
            side,
            callers,
            figures: Figures::median(&runs),
        })
        .collect())
}

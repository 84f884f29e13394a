//! What grows with what: `max`, keys, callers, limits, masters.

use std::time::Duration;

use ratelimit_runtime::Algorithm;

use crate::Failure;
use crate::measure::{Figures, measure};
use crate::parts::log::{ArticleLog, Log};
use crate::parts::server_time::{Bucket, Case, ServerTime};
use crate::peer::Kind;
use crate::progress;
use crate::server::{Server, Slow};
use crate::table::{Table, number, ratio};
use crate::work::{DISTINCT, Keys, Work};

const SLIDING: Kind = Kind::OnRedis(Algorithm::SlidingWindow);
const LEAKY: Kind = Kind::OnRedis(Algorithm::LeakyBucket);
const SIDES: [Kind; 3] = [Kind::ArticleZset, SLIDING, LEAKY];

/// What is measured, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub max: u32,
    pub keys: u32,
    pub callers: u64,
    pub rounds: usize,
    pub time: Duration,
}

pub async fn report(server: &Server, extent: Extent, unbatched: Option<(Figures, f64)>) -> String {
    let mut parts = vec![
        ("A log that grows", with_max(server, extent.max).await),
        ("Keys", with_keys(server, extent).await),
        ("Callers", with_callers(server, extent).await),
        ("Limits per rule", with_limits(server, extent.rounds).await),
    ];
    if let Some((ping, decision)) = unbatched {
        parts.push(("Masters of a Redis Cluster", with_masters(&ping, decision)));
    }
    let parts = parts
        .into_iter()
        .map(|(title, text)| format!("### {title}\n\n{text}"));
    parts.collect::<Vec<_>>().join("\n")
}

fn powers(from: u32, to: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(from), |n| n.checked_mul(10)).take_while(move |n| *n <= to)
}

async fn with_max(server: &Server, max: u32) -> String {
    let mut table = Table::new([
        "sliding_window, max",
        "filling, µs each",
        "full, one leaves per call",
        "refused",
        "ZSET Lua: filling",
        "refused",
        "bytes per entry",
        "ZSET Lua",
        "calls above 250 µs (longest): filling",
        "emptying at once",
        "after refunds of half",
    ]);
    for max in std::iter::once(3).chain(powers(10, max)) {
        progress(format_args!("growth: max {max}"));
        let logs = async {
            Ok::<_, Failure>((
                Log::measure(server, max).await?,
                ArticleLog::measure(server, max).await?,
            ))
        };
        let (ours, article) = match logs.await {
            Ok(logs) => logs,
            Err(error) => {
                table.row([max.to_string(), format!("failed: {error}")]);
                continue;
            }
        };
        let slow = |slow: Slow| match slow.calls {
            0 => "none".to_owned(),
            calls => format!("{calls} ({} µs)", slow.longest),
        };
        table.row([
            max.to_string(),
            number(ours.filling),
            number(ours.full),
            number(ours.refused),
            number(article.filling),
            number(article.refused),
            number(ours.bytes),
            number(article.bytes),
            slow(ours.slow_filling),
            slow(ours.slow_emptying),
            slow(ours.slow_refunded),
        ]);
    }
    table.to_string()
}

async fn with_keys(server: &Server, extent: Extent) -> String {
    let works = powers(1, extent.keys).filter(|keys| *keys == 1 || *keys >= 10_000);
    let works = works
        .map(|keys| Work {
            name: "keys",
            keys: Keys::Among(keys.into()),
            callers: 64,
        })
        .collect();
    let mut rows = Rows::new("64 callers, among keys");
    rows.measure(server, extent, works, |work| match work.keys {
        Keys::Among(keys) => keys.to_string(),
        _ => String::new(),
    })
    .await;
    rows.0.to_string()
}

async fn with_callers(server: &Server, extent: Extent) -> String {
    let works =
        std::iter::successors(Some(1), |n| Some(n * 4)).take_while(|n| *n <= extent.callers);
    let works = works
        .map(|callers| Work {
            name: "callers",
            keys: DISTINCT,
            callers,
        })
        .collect();
    let mut rows = Rows::new("callers, distinct keys");
    rows.measure(server, extent, works, |work| work.callers.to_string())
        .await;
    rows.0.to_string()
}

/// A row for each work, the sides beside each other.
struct Rows(Table);

impl Rows {
    fn new(what: &str) -> Self {
        let figures = ["decisions/s", "p50 µs", "p99 µs", "server µs"];
        let names = ["ZSET Lua", "sliding_window", "leaky_bucket"];
        let heads = names
            .iter()
            .flat_map(|name| figures.map(|figure| format!("{name}: {figure}")));
        Self(Table::new(std::iter::once(what.to_owned()).chain(heads)))
    }

    async fn measure(
        &mut self,
        server: &Server,
        extent: Extent,
        works: Vec<Work>,
        name: fn(&Work) -> String,
    ) {
        for work in works {
            progress(format_args!("growth: {} {}", name(&work), work.name));
            let mut cells = vec![name(&work)];
            for kind in SIDES {
                match measure(kind, work, server, extent.time).await {
                    Ok(figures) => {
                        let figures =
                            [figures.per_second, figures.p50, figures.p99, figures.server];
                        cells.extend(figures.map(number));
                    }
                    Err(error) => cells.extend([
                        format!("failed: {error}"),
                        String::new(),
                        String::new(),
                        String::new(),
                    ]),
                }
            }
            self.0.row(cells);
        }
    }
}

async fn with_limits(server: &Server, rounds: usize) -> String {
    let limits = [1, 2, 4, 8];
    let buckets = |n| {
        [
            Bucket::Log { limits: n },
            Bucket::Counter(Algorithm::LeakyBucket, n),
        ]
    };
    let case = |bucket| Case {
        bucket,
        entries: 5,
        admitted: true,
    };
    let cases = std::iter::once(Bucket::ArticleZset)
        .chain(limits.into_iter().flat_map(buckets))
        .map(case)
        .collect();
    let times = ServerTime::measure(server, cases, rounds, 100).await;
    let mut table = Table::new([
        "server µs, admitted, limits",
        "sliding_window",
        "× ZSET Lua",
        "leaky_bucket",
        "× ZSET Lua",
    ]);
    for n in limits {
        let figures = |bucket| {
            [
                number(times.of(case(bucket))),
                ratio(times.ratio(bucket, 5, true)),
            ]
        };
        table.row(std::iter::once(n.to_string()).chain(buckets(n).into_iter().flat_map(figures)));
    }
    table.to_string()
}

/// A master's time for a command that is not batched: what PING shows the way of any command costs,
/// and the decision.
fn with_masters(ping: &Figures, server_microseconds: f64) -> String {
    let each = 1e6 / ping.per_second - ping.server + server_microseconds;
    let mut table = Table::new([
        "masters",
        "decisions/s, sliding_window, distinct keys, none batched",
    ]);
    for masters in [1, 3, 6, 12, 24] {
        table.row([masters.to_string(), number(f64::from(masters) * 1e6 / each)]);
    }
    format!(
        "Each takes a master {} µs: {} for the decision, and what PING takes beside its \
         own.\n\n{table}",
        number(each),
        number(server_microseconds)
    )
}

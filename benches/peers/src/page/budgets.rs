//! [`report`]: what was promised, what was measured, and whether it is so.

use ratelimit_runtime::Algorithm;

use crate::measure::Figures;
use crate::page::printed::Printed;
use crate::parts::bytes::Bytes;
use crate::parts::callers::{CALLERS, CELLS, CLUSTERED, Callers, Distance, ZSETS};
use crate::parts::in_process::{self, Asking, InProcess};
use crate::parts::open_loop::OpenLoop;
use crate::parts::prefetch::{Prefetch, shared};
use crate::parts::service::{CONNECTIONS, Service};
use crate::parts::throughput::Throughput;
use crate::peer::Kind;
use crate::table::{Table, number, ratio};
use crate::work::{DISTINCT, HOT, Keys};

/// All that was measured.
pub struct Measured<'a> {
    pub throughput: &'a Throughput,
    pub callers: &'a Callers,
    pub service: &'a Service,
    pub prefetch: &'a Prefetch,
    pub open_loop: &'a OpenLoop,
    pub in_process: &'a InProcess,
    pub bytes: &'a Bytes,
    pub compile: &'a Printed,
}

/// What a figure has to be.
enum Budget {
    AtMost(f64),
    AtLeast(f64),
}

struct Budgets(Table);

pub fn report(measured: &Measured<'_>) -> String {
    let mut budgets = Budgets(Table::new(["", "budget", "measured", "met"]));
    budgets.throughput(measured.throughput);
    budgets.callers(measured.callers);
    budgets.on_cluster(measured.callers);
    for connections in CONNECTIONS {
        let what = format!(
            "requests/s of a service, {connections} connections: sliding_window against the ZSET \
             Lua, the faster"
        );
        let ratio = measured.service.against_by_hand(connections);
        budgets.times(&what, Budget::AtLeast(0.95), ratio);
    }
    budgets.prefetch(measured.prefetch);
    budgets.open_loop(measured.open_loop);
    budgets.in_process(measured.in_process);
    let each = measured.bytes.per_request;
    budgets.row(
        "bytes per logged request, up to 126",
        Budget::AtMost(25.0),
        each.ours,
        number,
    );
    let [bare, one, two] = in_process::future_bytes().map(|bytes| bytes as f64);
    budgets.row(
        "bytes that one attribute adds to a future",
        Budget::AtMost(100.0),
        one - bare,
        number,
    );
    budgets.row(
        "bytes that a second one adds",
        Budget::AtMost(100.0),
        two - one,
        number,
    );
    let compile = measured.compile.against_instrument();
    budgets.times(
        "compile time against `#[tracing::instrument]`",
        Budget::AtMost(1.0),
        compile,
    );
    budgets.0.to_string()
}

impl Budgets {
    fn row(&mut self, what: &str, budget: Budget, figure: f64, shown: fn(f64) -> String) {
        // What is shown is what is compared.
        let figure = (figure * 100.0).round() / 100.0;
        let (bound, met) = match budget {
            Budget::AtMost(bound) => (format!("≤ {}", shown(bound)), figure <= bound),
            Budget::AtLeast(bound) => (format!("≥ {}", shown(bound)), figure >= bound),
        };
        let (figure, met) = match figure.is_finite() {
            true => (shown(figure), if met { "yes" } else { "**no**" }),
            false => ("not measured".to_owned(), ""),
        };
        self.0.row([what.to_owned(), bound, figure, met.to_owned()]);
    }

    fn times(&mut self, what: &str, budget: Budget, figure: f64) {
        self.row(what, budget, figure, ratio);
    }

    fn throughput(&mut self, throughput: &Throughput) {
        let sliding = Kind::OnRedis(Algorithm::SlidingWindow);
        let leaky = Kind::OnRedis(Algorithm::LeakyBucket);
        let of = |kind, keys, callers, figure: fn(&Figures) -> f64| {
            let figures = throughput.of(kind, keys, callers);
            figures.map_or(f64::NAN, |figures| figure(&figures))
        };
        let per_second = |figures: &Figures| figures.per_second;
        let [zset, as_made] = ZSETS.map(|zset| of(zset, HOT, 512, per_second));
        for ours in [sliding, leaky] {
            let rate = of(ours, HOT, 512, per_second) / zset.max(as_made);
            let what = format!(
                "decisions/s, one hot key, 512 callers: {} against the ZSET Lua, the faster of \
                 both settings",
                plain(ours)
            );
            self.times(&what, Budget::AtLeast(3.9), rate);
        }
        self.row(
            "Redis calls per refusal, refused again",
            Budget::AtMost(0.01),
            of(sliding, Keys::Exhausted, 64, |figures| figures.calls),
            number,
        );
        let p50 = |figures: &Figures| figures.p50;
        let [zset, as_made] = ZSETS.map(|zset| of(zset, DISTINCT, 1, p50));
        self.times(
            "latency of one caller (p50): sliding_window against the ZSET Lua, the faster of both \
             settings",
            Budget::AtMost(1.05),
            of(sliding, DISTINCT, 1, p50) / zset.min(as_made),
        );
    }

    /// Beside the faster of both settings of a peer.
    fn on_cluster(&mut self, callers: &Callers) {
        let log = Kind::OnRedis(Algorithm::SlidingWindow);
        for count in [1, 4, 8, 16, 64, 512] {
            let what = format!(
                "decisions/s, {}, {count} callers: {} against the ZSET Lua, the faster of both \
                 settings",
                Distance::Cluster,
                plain(log)
            );
            let rate = callers.against((Distance::Cluster, DISTINCT), log, CLUSTERED, count);
            self.times(&what, Budget::AtLeast(0.95), rate);
        }
    }

    /// Beside the faster of both settings of a peer.
    fn callers(&mut self, callers: &Callers) {
        let sides = [
            (
                Kind::OnRedis(Algorithm::SlidingWindow),
                "the ZSET Lua",
                ZSETS,
            ),
            (Kind::OnRedis(Algorithm::LeakyBucket), "redis-cell", CELLS),
        ];
        for distance in [Distance::Near, Distance::Far] {
            for (ours, peer, peers) in sides {
                for count in CALLERS {
                    let least = match (distance, ours, count) {
                        // One caller has a row of its own.
                        (Distance::Near, _, 1) => continue,
                        (Distance::Far, ..) => 0.95,
                        (_, Kind::OnRedis(Algorithm::SlidingWindow), ..=32) => 0.95,
                        (_, _, ..=32) => 0.8,
                        (_, Kind::OnRedis(Algorithm::LeakyBucket), 128) => 1.3,
                        (_, Kind::OnRedis(Algorithm::LeakyBucket), 512) => 1.2,
                        _ => 1.1,
                    };
                    let what = format!(
                        "decisions/s, {distance}, {count} callers: {} against {peer}, the faster \
                         of both settings",
                        plain(ours)
                    );
                    let rate = callers.against((distance, DISTINCT), ours, peers, count);
                    self.times(&what, Budget::AtLeast(least), rate);
                }
            }
        }
    }

    fn prefetch(&mut self, prefetch: &Prefetch) {
        for algorithm in Algorithm::ALL {
            let kind = Kind::Prefetching(*algorithm);
            let least = if *algorithm == Algorithm::SlidingWindow {
                5.0
            } else {
                20.0
            };
            let what = format!(
                "decisions/s, one hot key, 512 callers: {} against the ZSET Lua, the faster of \
                 both settings",
                plain(kind)
            );
            self.times(
                &what,
                Budget::AtLeast(least),
                prefetch.against_by_hand(kind),
            );
            let what = format!("p50 of one caller on one key, µs: {}", plain(kind));
            self.row(&what, Budget::AtMost(5.0), prefetch.alone(kind), number);
            let what = format!(
                "the most that four limiters admit in any second under 10,000 a second: {}",
                plain(kind)
            );
            let most = Budget::AtMost(shared::bound(kind).into());
            self.row(&what, most, prefetch.most(kind), |most| {
                format!("{most:.0}")
            });
            let Some(steady) = prefetch.steady(kind) else {
                continue;
            };
            let what = format!("10,000 calls/s on one key, {}", plain(kind));
            self.row(
                &format!("{what}: Redis calls per 1,000 decisions"),
                Budget::AtMost(5.0),
                steady.calls * 1e3,
                number,
            );
            let what = format!("{what}: p50 of a check, µs");
            self.row(&what, Budget::AtMost(5.0), steady.p50, number);
        }
    }

    fn open_loop(&mut self, open_loop: &OpenLoop) {
        for algorithm in [Algorithm::SlidingWindow, Algorithm::LeakyBucket] {
            let (p50, lost) = open_loop.at_the_knee(algorithm);
            let what = format!("arrivals at 0.8 of redis-cell's capacity, {algorithm}");
            self.times(
                &format!("{what}: p50 against redis-cell's"),
                Budget::AtMost(1.0),
                p50,
            );
            self.row(
                &format!("{what}: share of calls lost"),
                Budget::AtMost(0.0),
                lost,
                number,
            );
        }
    }

    fn in_process(&mut self, in_process: &InProcess) {
        let [governor, _] = in_process.of(Asking::Governor);
        for (what, asking, most) in [
            ("leaky_bucket", Asking::LeakyAdmitted, 1.2),
            ("sliding_window", Asking::SlidingAdmitted, 1.5),
        ] {
            let [one, two] = in_process.of(asking);
            let time = format!(
                "memory, {what}, 50,000 keys: time of a call against governor's, key built"
            );
            self.times(&time, Budget::AtMost(most), governor / one);
            let threads =
                format!("memory, {what}: calls/s of 2 threads on distinct keys against one");
            self.times(&threads, Budget::AtLeast(1.6), two / one);
        }
    }
}

/// The name of a side of this crate, without marks.
fn plain(kind: Kind) -> String {
    kind.name().replace("**", "")
}

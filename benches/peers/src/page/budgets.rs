//! [`report`]: what was promised, what was measured, and whether it is so.

use ratelimit_runtime::Algorithm;

use crate::page::printed::Printed;
use crate::parts::bytes::Bytes;
use crate::parts::in_process::{self, Asking, InProcess};
use crate::parts::instructions::Instructions;
use crate::parts::server_time::{Bucket, ServerTime};
use crate::parts::throughput::Throughput;
use crate::peer::Kind;
use crate::table::{Table, number, ratio};
use crate::work::{DISTINCT, HOT, Keys};

const COUNTERS: [Algorithm; 4] =
    [Algorithm::FixedWindow, Algorithm::SlidingCounter, Algorithm::TokenBucket, Algorithm::LeakyBucket];

/// All that was measured.
pub struct Measured<'a> {
    pub throughput: &'a Throughput,
    pub server_time: &'a ServerTime,
    pub in_process: &'a InProcess,
    pub instructions: &'a Instructions,
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
    budgets.server_time(measured.server_time);
    budgets.throughput(measured.throughput);
    budgets.counts(measured.instructions);
    let [one, two] = measured.in_process.of(Asking::LeakyAdmitted);
    budgets.times("memory, leaky_bucket, 2 threads on distinct keys against one", Budget::AtLeast(1.6), two / one);
    let [one, two] = measured.in_process.of(Asking::SlidingAdmitted);
    budgets.times("memory, sliding_window, the same", Budget::AtLeast(1.6), two / one);
    let each = measured.bytes.per_request;
    budgets.row("bytes per logged request, up to 126", Budget::AtMost(25.0), each.ours, number);
    let [bare, one, two] = in_process::future_bytes().map(|bytes| bytes as f64);
    budgets.row("bytes that one attribute adds to a future", Budget::AtMost(400.0), one - bare, number);
    budgets.row("bytes that a second one adds", Budget::AtMost(100.0), two - one, number);
    let compile = measured.compile.against_instrument();
    budgets.times("compile time against `#[tracing::instrument]`", Budget::AtMost(1.0), compile);
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

    fn server_time(&mut self, times: &ServerTime) {
        let log = Bucket::Log { limits: 1 };
        let mut row = |what: &str, most, figure| {
            self.times(&format!("server time against the ZSET Lua: {what}"), Budget::AtMost(most), figure);
        };
        row("sliding_window, admitted", 1.5, times.ratio(log, 5, true));
        row("sliding_window, refused", 2.2, times.ratio(log, 5, false));
        for algorithm in COUNTERS {
            let bucket = Bucket::Counter(algorithm, 1);
            row(&format!("{algorithm}, admitted"), 1.3, times.ratio(bucket, 5, true));
            row(&format!("{algorithm}, refused"), 1.3, times.ratio(bucket, 5, false));
        }
        let further = |one, two| times.ratio(two, 5, true) - times.ratio(one, 5, true);
        row("a second limit, sliding_window", 0.5, further(log, Bucket::Log { limits: 2 }));
        for algorithm in COUNTERS {
            let [one, two] = [1, 2].map(|limits| Bucket::Counter(algorithm, limits));
            row(&format!("a second limit, {algorithm}"), 0.5, further(one, two));
        }
    }

    fn throughput(&mut self, throughput: &Throughput) {
        let sliding = Kind::OnRedis(Algorithm::SlidingWindow);
        let leaky = Kind::OnRedis(Algorithm::LeakyBucket);
        let of = |kind, keys, callers| throughput.of(kind, keys, callers);
        let against = |ours, theirs, keys, callers, figure: fn(&crate::measure::Figures) -> f64| match (
            of(ours, keys, callers),
            of(theirs, keys, callers),
        ) {
            (Some(ours), Some(theirs)) => figure(&ours) / figure(&theirs),
            _ => f64::NAN,
        };
        let batched = "server time per decision against the ZSET Lua, 512 callers:";
        for (what, kind, keys, most) in [
            ("distinct keys, sliding_window", sliding, DISTINCT, 0.9),
            ("distinct keys, leaky_bucket", leaky, DISTINCT, 0.9),
            ("one hot key, sliding_window", sliding, HOT, 0.1),
        ] {
            let figure = against(kind, Kind::ArticleZset, keys, 512, |figures| figures.server);
            self.times(&format!("{batched} {what}"), Budget::AtMost(most), figure);
        }
        for callers in [64, 512] {
            let rate = |ours, theirs| against(ours, theirs, DISTINCT, callers, |figures| figures.per_second);
            let what = format!("decisions/s, distinct keys, {callers} callers:");
            let cell = rate(sliding, Kind::RedisCell);
            self.times(&format!("{what} sliding_window against redis-cell"), Budget::AtLeast(1.0), cell);
            let ping = rate(leaky, Kind::Ping);
            self.times(&format!("{what} leaky_bucket against PING"), Budget::AtLeast(1.0), ping);
        }
        let hot = against(sliding, Kind::ArticleZset, HOT, 512, |figures| figures.per_second);
        self.times(
            "decisions/s, one hot key, 512 callers: sliding_window against the ZSET Lua",
            Budget::AtLeast(10.0),
            hot,
        );
        let again = Keys::Exhausted;
        let again = of(sliding, again, 64).map_or(f64::NAN, |figures| figures.calls);
        self.row("Redis calls per refusal, refused again", Budget::AtMost(0.01), again, number);
        let one = against(sliding, Kind::ArticleZset, DISTINCT, 1, |figures| figures.p50);
        self.times("latency of one caller (p50): sliding_window against the ZSET Lua", Budget::AtMost(1.05), one);
    }

    fn counts(&mut self, instructions: &Instructions) {
        let of = |asking| instructions.of(asking);
        let leaky = "memory, leaky_bucket, admitted";
        let sliding = "memory, sliding_window, admitted";
        for (what, asking, governor, most) in [
            ("Redis, refused again", Asking::RedisRefused, Asking::GovernorRefused, 0.9),
            (leaky, Asking::LeakyAdmitted, Asking::Governor, 0.9),
            (sliding, Asking::SlidingAdmitted, Asking::Governor, 1.0),
            ("memory, leaky_bucket, refused", Asking::LeakyRefused, Asking::GovernorRefused, 0.9),
            ("memory, sliding_window, refused", Asking::SlidingRefused, Asking::GovernorRefused, 0.9),
        ] {
            let figure = of(asking).instructions / of(governor).instructions;
            self.times(&format!("{what}: instructions against governor's, key built"), Budget::AtMost(most), figure);
            self.row(&format!("{what}: allocations"), Budget::AtMost(0.0), of(asking).allocations, number);
        }
        let attribute = of(Asking::SlidingAdmitted).instructions / of(Asking::SlidingByHand).instructions;
        self.times("memory: instructions by the attribute against `acquire` by hand", Budget::AtMost(1.0), attribute);
    }
}

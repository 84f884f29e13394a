//! [`Table`]: what decisions cost a redis-server, in instructions.

use std::fmt;
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Rule};

use super::decisions::Callers;
use super::server::CountedServer;

/// Long, so that nothing expires however slow the server is.
pub(super) const WINDOW: Duration = Duration::from_secs(3_600);
const CALLERS: u64 = 512;
/// Distinct keys, each of which admits so many calls.
const KEYS: u64 = 1_024;
const MAX: u64 = 4;
/// The distinct keys of one caller.
const FEW: u64 = 128;

/// What the server is asked, by 512 callers unless it says otherwise.
pub const COLUMNS: [&str; 6] = [
    "fresh keys",
    "known keys",
    "refused",
    "two limits",
    "one key",
    "one caller",
];

/// Instructions per decision of each algorithm, in the order of [`COLUMNS`].
#[derive(Debug)]
pub struct Table(pub Vec<(Algorithm, [u64; COLUMNS.len()])>);

impl Table {
    /// Measures a row for every algorithm.
    pub fn measure(server: &mut CountedServer) -> Self {
        Self(
            Algorithm::ALL
                .iter()
                .map(|&algorithm| (algorithm, figures(server, algorithm)))
                .collect(),
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::rows(f, "server instructions", COLUMNS, &self.0)
    }
}

fn figures(server: &mut CountedServer, algorithm: Algorithm) -> [u64; COLUMNS.len()] {
    server.empty();
    // What is refused is asked again.
    let store = RedisStore::new(&server.url())
        .unwrap()
        .deny_cache(false)
        .write_rules(false);
    store.answers_within(super::COUNTED);
    let callers = Callers::on(store);
    // The key of a call is its number modulo `keys`, and `work` keeps them apart.
    let ask = |work: &'static str, limits: &[Limit], keys, asking, calls| {
        let (first, others) = limits.split_first().unwrap();
        let rule = Rule::new(work, *first).with_algorithm(algorithm);
        let rule = others.iter().fold(rule, |rule, limit| rule.and(*limit));
        callers.ask(&rule, asking, calls, keys)
    };
    // The server learns the script.
    ask("first", &[Limit::new(MAX, WINDOW)], 1, 1, 1);

    let mut counted = |work, limits: &[Limit], keys, asking, calls, admitted: bool| {
        let mut made = 0;
        let count = server.instructions(|| made = ask(work, limits, keys, asking, calls));
        assert_eq!(
            made,
            if admitted { calls } else { 0 },
            "{algorithm}, {work}"
        );
        count / calls
    };
    let limit = Limit::new(MAX, WINDOW);
    let fresh = counted("distinct", &[limit], KEYS, CALLERS, KEYS, true);
    let known = counted("distinct", &[limit], KEYS, CALLERS, (MAX - 1) * KEYS, true);
    // It changes nothing, and Lua collects its garbage in some of them.
    let refused = (0..3)
        .map(|_| counted("distinct", &[limit], KEYS, CALLERS, 2 * KEYS, false))
        .min()
        .unwrap();
    let limits = [limit, Limit::new(MAX, 2 * WINDOW)];
    counted("two", &limits, KEYS, CALLERS, KEYS, true);
    let two = counted("two", &limits, KEYS, CALLERS, 2 * KEYS, true);
    let many = Limit::new(1_000_000, WINDOW);
    counted("hot", &[many], 1, CALLERS, 2 * CALLERS, true);
    let hot = counted("hot", &[many], 1, CALLERS, 8 * CALLERS, true);
    counted("one", &[limit], FEW, 1, FEW, true);
    let one = counted("one", &[limit], FEW, 1, (MAX - 1) * FEW, true);
    [fresh, known, refused, two, hot, one]
}

//! [`Table`]: what decisions cost a redis-server, in instructions.

use std::fmt;
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Rule};

use super::decisions::Callers;
use super::peer::{Asked, Peer};
use super::server::CountedServer;

/// Long, so that nothing expires however slow the server is.
pub(super) const WINDOW: Duration = Duration::from_secs(3_600);
/// How many calls of a peer share a pipeline, and how many keys a command of ours has at most.
pub(super) const BATCH: u64 = 64;
const CALLERS: u64 = 512;
/// Distinct keys, each of which admits so many calls.
const KEYS: u64 = 1_024;
const MAX: u64 = 4;
/// The distinct keys of one caller.
const FEW: u64 = 128;

/// An algorithm in a layout, or a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Ours(Algorithm),
    Theirs(Peer),
}

impl Side {
    /// All algorithms, then the peers.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let ours = Algorithm::ALL.iter().copied().map(Self::Ours);
        ours.chain([Peer::ArticleZset, Peer::ArticleIncr, Peer::RedisCell].map(Self::Theirs)).collect()
    }

    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Ours(algorithm) => algorithm.to_string(),
            Self::Theirs(Peer::ArticleZset) => "the articles' sorted set".to_owned(),
            Self::Theirs(Peer::ArticleIncr) => "the articles' counter".to_owned(),
            Self::Theirs(Peer::RedisCell) => "redis-cell".to_owned(),
        }
    }
}

/// What the server is asked, by 512 callers unless it says otherwise.
pub const COLUMNS: [&str; 6] = ["fresh keys", "known keys", "refused", "two limits", "one key", "one caller"];

/// Instructions per decision, in the order of [`COLUMNS`]; `None` where a side has no such thing.
pub type Figures = [Option<u64>; COLUMNS.len()];

/// The rows that were measured, and why others were not.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<(Side, Figures)>,
    pub missing: Vec<(Side, String)>,
}

impl Table {
    /// Measures these sides.
    ///
    /// # Panics
    ///
    /// If a decision is not what it has to be.
    pub fn measure(server: &mut CountedServer, sides: impl IntoIterator<Item = Side>) -> Self {
        let mut table = Self::default();
        for side in sides {
            match (side, &server.module) {
                (Side::Theirs(Peer::RedisCell), Err(why)) => table.missing.push((side, why.clone())),
                _ => table.rows.push((side, figures(server, side))),
            }
        }
        table
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28}", "server instructions")?;
        COLUMNS.iter().try_for_each(|column| write!(f, " {column:>11}"))?;
        for (side, figures) in &self.rows {
            write!(f, "\n{:<28}", side.name())?;
            for figure in figures {
                write!(f, " {:>11}", figure.map_or("-".to_owned(), |figure| figure.to_string()))?;
            }
        }
        self.missing.iter().try_for_each(|(side, why)| write!(f, "\n{:<28} not measured: {why}", side.name()))
    }
}

/// What asks, and what it is asked by.
enum Asking {
    Ours(Box<Callers>, Algorithm),
    Peer(Asked),
}

impl Asking {
    fn on(server: &CountedServer, side: Side) -> Self {
        match side {
            Side::Ours(algorithm) => {
                // What is refused is asked again.
                let store = RedisStore::new(&server.url()).unwrap().deny_cache(false);
                store.answers_within(super::COUNTED);
                Self::Ours(Box::new(Callers::on(store, None)), algorithm)
            }
            Side::Theirs(peer) => Self::Peer(Asked::on(server.connect(), peer)),
        }
    }

    /// So many calls under these limits; the key of a call is its number modulo `keys`, and `work`
    /// keeps them apart. Returns how many were admitted.
    fn ask(&mut self, work: &'static str, limits: &[Limit], keys: u64, callers: u64, calls: u64) -> u64 {
        let (first, others) = limits.split_first().unwrap();
        match self {
            Self::Ours(of, algorithm) => {
                let rule = Rule::new(work, *first).with_algorithm(*algorithm);
                let rule = others.iter().fold(rule, |rule, limit| rule.and(*limit));
                of.ask(&rule, callers, calls, keys)
            }
            Self::Peer(asked) => asked.ask(work, first.max(), callers.min(BATCH), calls, keys),
        }
    }
}

fn figures(server: &mut CountedServer, side: Side) -> Figures {
    server.empty();
    let mut asking = Asking::on(server, side);
    // The server learns the script.
    asking.ask("first", &[Limit::new(MAX, WINDOW)], 1, 1, 1);

    let mut counted = |work, limits: &[Limit], keys, callers, calls, admitted: bool| {
        let mut made = 0;
        let count = server.instructions(|| made = asking.ask(work, limits, keys, callers, calls));
        assert_eq!(made, if admitted { calls } else { 0 }, "{}, {work}", side.name());
        Some(count / calls)
    };
    let limit = Limit::new(MAX, WINDOW);
    let fresh = counted("distinct", &[limit], KEYS, CALLERS, KEYS, true);
    let known = counted("distinct", &[limit], KEYS, CALLERS, (MAX - 1) * KEYS, true);
    let refused = counted("distinct", &[limit], KEYS, CALLERS, 2 * KEYS, false);
    let two = if matches!(side, Side::Ours(..)) {
        let limits = [limit, Limit::new(MAX, 2 * WINDOW)];
        counted("two", &limits, KEYS, CALLERS, KEYS, true);
        counted("two", &limits, KEYS, CALLERS, 2 * KEYS, true)
    } else {
        None
    };
    let many = Limit::new(1_000_000, WINDOW);
    counted("hot", &[many], 1, CALLERS, 2 * CALLERS, true);
    let hot = counted("hot", &[many], 1, CALLERS, 8 * CALLERS, true);
    counted("one", &[limit], FEW, 1, FEW, true);
    let one = counted("one", &[limit], FEW, 1, (MAX - 1) * FEW, true);
    [fresh, known, refused, two, hot, one]
}

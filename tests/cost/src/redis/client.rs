//! [`OnRedis`]: decisions on a redis-server, for what they cost this process.

use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use ratelimit_runtime::{Limit, RedisStore, Rule};

use super::decisions::{Admitted, Callers};
use super::server::Server;

/// Who asks, and about what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// One caller after the other.
    One,
    /// 64 callers on distinct keys.
    Some,
    /// 512 callers on distinct keys.
    Many,
    /// 512 callers on one key.
    Hot,
    /// One caller after the other, each on a key that is seldom called, by a rule with `prefetch`.
    Cold,
    /// One caller after the other on one key, by units that were taken ahead.
    Spent,
}

impl Load {
    pub const ALL: [Self; 6] = [
        Self::One,
        Self::Some,
        Self::Many,
        Self::Hot,
        Self::Cold,
        Self::Spent,
    ];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|load| format!("{load:?}") == name)
    }

    fn callers(self) -> u64 {
        match self {
            Self::One | Self::Cold | Self::Spent => 1,
            Self::Some => 64,
            Self::Many | Self::Hot => 512,
        }
    }
}

/// Calls that are made before any is measured.
const FIRST: u64 = 2_048;

/// How long a server may take to answer what nobody waits for.
const ANSWERED: Duration = Duration::from_millis(200);

static RULE: Rule = Rule::new("rate", Limit::per_hour(100_000_000));
static AHEAD: Rule =
    Rule::new("rate", Limit::per_hour(100_000_000)).with_prefetch(Duration::from_millis(100));
/// The lease outlasts a measurement.
static LONG: Rule =
    Rule::new("rate", Limit::per_hour(100_000_000)).with_prefetch(Duration::from_secs(10));

/// A limiter that is connected, and callers for it.
pub struct OnRedis {
    load: Load,
    callers: Callers,
    _server: Server,
}

impl OnRedis {
    #[must_use]
    pub fn new(load: Load) -> Self {
        let server = Server::start();
        let ready = Self {
            load,
            callers: Callers::on(RedisStore::new(&server.url()).unwrap()),
            _server: server,
        };
        ready.run(FIRST);
        if load == Load::Spent {
            ready.take_ahead();
        }
        ready
    }

    /// Makes so many checks. Tools find it by its name.
    #[inline(never)]
    pub fn measured(&self, checks: u64) {
        let (admitted, ahead) = if self.load == Load::Spent {
            (self.callers.at_once(&LONG, checks), checks)
        } else {
            (self.run(checks), 0)
        };
        let admitted = black_box(admitted);
        assert_eq!((admitted.all, admitted.ahead), (checks, ahead));
    }

    /// Spends what was taken ahead until there is no more, and lets the next units come: as many as
    /// are taken for a log at once.
    fn take_ahead(&self) {
        while self.run(1).ahead > 0 {}
        self.callers.idle(ANSWERED);
    }

    /// Makes so many checks.
    fn run(&self, checks: u64) -> Admitted {
        let (rule, keys) = match self.load {
            Load::Hot => (&RULE, 1),
            Load::One | Load::Some | Load::Many => (&RULE, 50_000),
            Load::Cold => (&AHEAD, 50_000),
            Load::Spent => (&LONG, 1),
        };
        let callers = self.load.callers();
        self.callers.admitted(rule, callers, checks, keys)
    }
}

impl fmt::Debug for OnRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnRedis")
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

//! [`OnRedis`]: decisions on a redis-server, for what they cost this process.

use std::fmt;
use std::hint::black_box;

use ratelimit_runtime::{Limit, RedisStore, Rule};

use super::decisions::Callers;
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
}

impl Load {
    pub const ALL: [Self; 4] = [Self::One, Self::Some, Self::Many, Self::Hot];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|load| format!("{load:?}") == name)
    }

    fn callers(self) -> u64 {
        match self {
            Self::One => 1,
            Self::Some => 64,
            Self::Many | Self::Hot => 512,
        }
    }
}

static RULE: Rule = Rule::new("rate", Limit::per_hour(100_000_000));

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
        ready.run(2_048);
        ready
    }

    /// Makes so many checks. Tools find it by its name.
    #[inline(never)]
    pub fn measured(&self, checks: u64) {
        assert_eq!(black_box(self.run(checks)), checks);
    }

    /// Makes so many checks; says how many were admitted.
    fn run(&self, checks: u64) -> u64 {
        let keys = if self.load == Load::Hot { 1 } else { 50_000 };
        self.callers.ask(&RULE, self.load.callers(), checks, keys)
    }
}

impl fmt::Debug for OnRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnRedis")
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

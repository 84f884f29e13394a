//! [`RedisStore`]: limits kept on a Redis server, shared by every process that uses it.
//!
//! With scripts, a decision is one call of a script, so it is atomic and takes one round trip.

use std::fmt;
use std::sync::Arc;

use self::clients::Clients;
use self::known::Known;
use self::rules::RuleBook;
use self::settings::StoreSettings;
use self::settings::server::Server;
use self::settings::url;
use crate::clock::Clock;
use crate::error::StoreError;

mod batcher;
mod builder;
mod clients;
mod cluster;
mod errors;
pub(crate) mod known;
mod link;
mod listing;
mod operations;
mod permits;
mod rights;
mod rules;
mod scriptless;
mod scripts;
mod servers;
mod settings;

pub use self::settings::login::RedisCredentials;
pub use self::settings::mode::RedisMode;

/// Limits on a Redis server, on the master that Sentinel names, or on a Redis Cluster (Redis 6.2 or
/// later, or Valkey). [The guide](crate::guide::redis) says what each deployment promises.
///
/// The first call on a tokio runtime connects in the background, and the store reconnects whenever
/// a connection is lost; [`ready`](crate::RateLimiter::ready) waits for it. While the server is
/// slow or down, calls fail at once and the limiter answers by its `on_unavailable` setting.
///
/// A call that is dropped at its timeout may have been charged although it was not admitted; this
/// store admits no call that it has not charged.
///
/// The user needs `EVALSHA`, `EVAL`, `SCRIPT LOAD`, `UNLINK`, `PING` and `ROLE`, and inside of
/// scripts `TIME`, `GET`, `MGET`, `SET`, `SETRANGE`, `UNLINK`, `PEXPIRE`, `PEXPIREAT`, `ZADD`,
/// `ZCARD`, `ZCOUNT`, `ZSCORE`, `ZRANGE`, `ZRANGEBYSCORE`, `ZREM` and `ZREMRANGEBYRANK`. Without
/// scripts, the user needs those of [`RedisMode::Transactions`]. Listing keys needs `SCAN`, and
/// [`write_rules`](Self::write_rules) `MULTI`, `EXEC`, `HSET`, `HLEN` and `EXPIRE`; a database
/// other than 0 `SELECT`, and [`client_name`](Self::client_name) `CLIENT SETNAME`. In a cluster,
/// the user also needs `CLUSTER SLOTS` and `ASKING`, and `CLUSTER INFO` for
/// [`ready`](crate::RateLimiter::ready) to see whether the cluster is up. The user of sentinels
/// needs `SENTINEL GET-MASTER-ADDR-BY-NAME` and `SENTINEL MASTER`.
pub struct RedisStore {
    settings: StoreSettings,
    /// The server's name in metrics.
    name: String,
    clients: Clients,
    rules: Arc<RuleBook>,
    writes_rules: bool,
    known: Known,
}

impl RedisStore {
    /// A store on the servers that the URL names:
    ///
    /// | URL | servers |
    /// | --- | --- |
    /// | `redis://[[user]:password@]host[:port][/database]` | one |
    /// | `unix:///path/to/socket[?db=…&user=…&pass=…]` | one on this machine |
    /// | `redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/master-name[/database]` | the master that Sentinel knows by this name. The hosts are sentinels, at port 26379 unless said; `?sentinel_user=…&sentinel_password=…` is their login |
    /// | `redis+cluster://[[user]:password@]host[:port][,host[:port]…]` | a cluster, of which these are some nodes |
    ///
    /// `rediss` in the place of `redis` is TLS (feature `redis-tls`), for which rustls needs a
    /// crypto provider: the one that a dependency on `rustls` brings with its default features, or
    /// one that the program has installed by `CryptoProvider::install_default`. `valkey` and
    /// `valkeys` mean the same as `redis` and `rediss`. Special characters in a password or a name
    /// are percent-encoded.
    ///
    /// `redis` is not for a proxy that spreads keys over several servers by the first key of a
    /// command: commands have keys of several calls, so each server would admit `max` of a key.
    ///
    /// Returns at once and connects to nothing.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if the URL has none of these
    /// forms. The message never repeats the URL, which may hold a password. A wrong password,
    /// certificate or name of a master is an error of [`ready`](crate::RateLimiter::ready) and of
    /// calls, until it is corrected.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        url::settings(url).map(Self::on)
    }

    fn on(settings: StoreSettings) -> Self {
        Self {
            name: settings.name(),
            known: Known::of(settings.epochs.clone()),
            settings,
            clients: Clients::default(),
            rules: Arc::default(),
            writes_rules: true,
        }
    }

    /// The settings, to be changed. Clients made with the old settings end.
    fn settings_mut(&mut self) -> &mut StoreSettings {
        self.clients = Clients::default();
        &mut self.settings
    }

    /// Login, TLS and settings of all servers.
    fn server_mut(&mut self) -> &mut Server {
        &mut self.settings_mut().server
    }

    /// Sets which commands the store decides with. The default is [`RedisMode::Scripts`].
    ///
    /// ```
    /// # use ratelimit_runtime::{RedisMode, RedisStore};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = RedisStore::new("redis://limits.example.com")?.mode(RedisMode::Transactions);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn mode(mut self, mode: RedisMode) -> Self {
        self.settings_mut().mode = mode;
        self
    }

    /// Takes the time from `clock` instead of the server's `TIME`: for tests, and for services that
    /// refuse `TIME` in scripts.
    ///
    /// All processes that share a key must then have clocks that agree, such as
    /// [`SystemClock`](crate::clock::SystemClock), and none that counts from the start of its
    /// process. For a process whose clock is ahead by *d*, units become free *d* early, and its
    /// admissions last *d* longer for the other processes. Keys still expire by the server's clock,
    /// a second later than without `clock`, because the caller's clock may be coarse or late.
    /// `fixed_window` without scripts and `leaky_bucket` by redis-cell, which have no other clock
    /// than the server's, are `Misconfigured`.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        let clock = Arc::new(clock);
        self.known.set_clock(Arc::clone(&clock));
        self.settings_mut().clock = Some(clock);
        self
    }

    /// Sets whether limiters on this store write their rules to the hash `rl1:rules` under their
    /// prefix, once a day, when one changes and after a reconnection: limits, settings and
    /// templates of keys, and never a key. `ratelimit-admin` reads it. The default is `true`;
    /// nothing waits for it, and a user without `MULTI`, `EXEC`, `HSET`, `HLEN` and `EXPIRE` loses
    /// nothing else.
    #[must_use]
    pub fn write_rules(mut self, on: bool) -> Self {
        self.writes_rules = on;
        self
    }

    /// The refusals and units it knows.
    #[cfg(feature = "_tests")]
    #[doc(hidden)]
    pub fn known_mut(&mut self) -> &mut Known {
        &mut self.known
    }

    /// Sets whether this process repeats a refusal without asking the server, until the same call
    /// could be admitted and for up to a second; also to calls of a higher cost, and while a block
    /// lasts to calls of any cost. The default is `true`: a flood then costs the server one or two
    /// calls a second. A change by this process applies at once; a reset, refund, unblock or
    /// settlement by another within that second; a raised `max` at once. A block also holds while
    /// the server is down.
    ///
    /// The cache holds up to 8,192 refusals, of about 180 bytes each and the key.
    #[must_use]
    pub fn deny_cache(mut self, on: bool) -> Self {
        self.known
            .set_capacity(if on { Known::CAPACITY } else { 0 });
        self
    }
}

impl fmt::Debug for RedisStore {
    /// Without the user name and the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        f.debug_struct("RedisStore")
            .field("address", &settings.address())
            .field("database", &settings.server.login.database)
            .field("tls", &settings.server.tls.is_some())
            .field("mode", &settings.mode)
            .field("deny_cache", &self.known.is_on())
            .finish_non_exhaustive()
    }
}

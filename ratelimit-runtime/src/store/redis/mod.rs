//! [`RedisStore`]: limits kept on a Redis server, shared by every process that uses it.
//!
//! A decision is one call of a script, so it is atomic and one round trip. The way there is `link`; what the server
//! does is in `scripts`; what goes wrong is sorted in `errors`. Where scripts are not to be used, `way` knows what is left:
//! plain `commands`, or the module redis-cell (`redis_cell`).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, Value};

use self::errors::unexpected_reply;
use self::link::Link;
use self::way::{Group, Means, Way, unsupported};
use self::wire::{Kind, Mode};
use super::{Answer, Capabilities, Request, Store, Verdict};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::{MAX_COUNT, MAX_WINDOW};

mod commands;
mod errors;
mod keeper;
mod link;
mod pool;
mod redis_cell;
mod script;
mod way;
mod wire;

pub use self::way::LogLayout;

/// Limits on one Redis server (Redis 6.2 or later, or Valkey).
///
/// The connection is made in the background at the first call, one per tokio runtime, and made again whenever it is
/// lost; [`ready`](Store::ready) waits for it. While there is none, calls fail at once and the limiter answers by its
/// `on_unavailable` policy.
///
/// A call that is dropped at its deadline may have been charged; it is never admitted and not charged.
///
/// The user needs `EVAL`, `EVALSHA`, `UNLINK`, `PING`, and inside of scripts `TIME`, `PEXPIREAT`, `PEXPIRE`, `PTTL`,
/// `GET`, `SET`, `DEL`, `GETRANGE`, `SETRANGE`, `ZADD`, `ZCARD`, `ZCOUNT`, `ZSCORE`, `ZRANGE`, `ZREVRANGE`, `ZREM` and
/// `ZREMRANGEBYRANK`; without scripts, what [`scripts`](Self::scripts) says instead.
pub struct RedisStore {
    link: Link,
    means: Means,
    clock: Option<Arc<dyn Clock>>,
}

impl RedisStore {
    /// A store on the server that the URL names: `redis://[user][:password]@host[:port][/database]`, `rediss://…` for
    /// TLS (feature `redis-tls`), or `unix:///path/to/socket[?db=…&user=…&pass=…]`. Special characters in a password
    /// are percent-encoded.
    ///
    /// Connections speak RESP3 unless the URL says `?protocol=resp2`.
    ///
    /// Returns at once and connects to nothing.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if the URL is not one of these. The message
    /// never repeats the URL, which may hold a password.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        let info = connection_info(url)?;
        let client = Client::open(info).map_err(|_| StoreError::misconfigured(URL_FORM))?;
        let means = Means { scripts: true, cell: false, layout: None };
        Ok(Self { link: Link::new(client), means, clock: None })
    }

    /// Whether to run scripts: yes unless set. Without them no `EVAL` and no `EVALSHA` is ever sent, decisions are as
    /// atomic and as exact, and these are left:
    ///
    /// - `sliding_window`, with several limits, costs up to 1,000 and bans, as a sorted set, in optimistic transactions:
    ///   one round trip for a refusal, two for an admission, another two whenever another process was faster. They run
    ///   on up to 8 connections of their own per runtime. Where processes with scripts keep the log as a sorted set too
    ///   (all rules of unit cost and limits up to 128; all with [`LogLayout::Zset`]), both share their buckets.
    /// - `fixed_window`, with one limit and any cost, as a counter, in one round trip. A window ends on a whole
    ///   millisecond of the server's clock. The counter has a key of its own, so processes with scripts do not share it.
    ///
    /// Other requests are answered with [`Unsupported`](crate::store::StoreErrorKind::Unsupported), and a limiter with a
    /// policy that needs more cannot be built. Stacked rules are decided in one transaction if all are sliding windows;
    /// else one after the other, and what a refused call was charged is given back.
    ///
    /// The user needs `MULTI`, `EXEC`, `WATCH`, `UNWATCH`, `TIME`, `PING`, `PTTL`, `PEXPIRE`, `PEXPIREAT`, `UNLINK`,
    /// `ZADD`, `ZCARD`, `ZCOUNT`, `ZRANGE`, `ZREVRANGE`, `ZREM`, `ZREMRANGEBYRANK`, `ZREMRANGEBYSCORE`, `ZSCORE`; for
    /// fixed windows `SET`, `GET`, `SETRANGE`, `BITFIELD`.
    #[must_use]
    pub fn scripts(mut self, on: bool) -> Self {
        self.means.scripts = on;
        self
    }

    /// Whether `leaky_bucket` runs on `CL.THROTTLE`, the command of the module redis-cell, which the server has to have
    /// loaded: no unless set. It needs no scripts.
    ///
    /// The module keeps one limit a key, of whole seconds, on its own keys, and has no refunds, reservations and bans;
    /// `peek` asks it for a quantity of 0. It tells waits in whole seconds: `retry_after` is up to a second too long, and
    /// never too short.
    #[must_use]
    pub fn redis_cell(mut self, on: bool) -> Self {
        self.means.cell = on;
        self
    }

    /// Keeps all sliding windows in this layout. Unless set, rules of unit cost and limits up to 128 have a
    /// [`Zset`](LogLayout::Zset), the others a [`Ring`](LogLayout::Ring). The layout is part of the key, so changing it
    /// starts the logs that it is about afresh.
    #[must_use]
    pub fn log_layout(mut self, layout: LogLayout) -> Self {
        self.means.layout = Some(layout);
        self
    }

    /// Takes the time from `clock` instead of the server's `TIME`: for tests, and for services that refuse `TIME` in
    /// scripts.
    ///
    /// All processes that share a bucket must then have clocks that agree: one that runs ahead by *d* makes slots
    /// free *d* early for its own calls, and its admissions last *d* longer for the others. Keys still expire by the
    /// server's clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    fn way(&self, request: &Request<'_>) -> Result<Way, StoreError> {
        self.means.way(request, self.clock.is_some())
    }

    /// Has the script of the request's kind do something, and gives its reply.
    async fn ask(&self, kind: Kind, mode: Mode, request: Request<'_>) -> Result<Value, StoreError> {
        let now = self.now()?;
        let key = kind.key(&request);
        let args = |command: &mut Cmd| {
            wire::clock(command, now);
            wire::request(command, kind, mode, &request);
        };
        kind.script().run(&self.link, &[&key], args).await
    }

    async fn decide(&self, mode: Mode, request: Request<'_>) -> Result<Verdict, StoreError> {
        match (self.way(&request)?, mode) {
            (Way::Script(kind), _) => {
                let reply = self.ask(kind, mode, request).await?;
                wire::verdict(&reply).ok_or_else(unexpected_reply)
            }
            (Way::Log, _) => {
                commands::decide(&self.link, || self.now(), mode, &[request]).await?.pop().ok_or_else(unexpected_reply)
            }
            (Way::Counter, _) => commands::fixed_window(&self.link, mode, &request).await,
            (Way::Cell, Mode::Peek) => redis_cell::peek(&self.link, &request).await,
            (Way::Cell, _) => redis_cell::acquire(&self.link, &request).await,
        }
    }

    async fn order(&self, mode: Mode, request: Request<'_>) -> Result<bool, StoreError> {
        match (self.way(&request)?, mode) {
            (Way::Script(kind), _) => {
                let reply = self.ask(kind, mode, request).await?;
                wire::flag(&reply).ok_or_else(unexpected_reply)
            }
            (Way::Log, Mode::Refund(_) | Mode::Block(_) | Mode::Unblock) => {
                commands::change(&self.link, || self.now(), mode, request).await
            }
            (Way::Counter, Mode::Refund(ticket)) => commands::refund_fixed_window(&self.link, &request, ticket).await,
            (Way::Cell, _) => unsupported("CL.THROTTLE can neither give back nor ban: leave redis_cell off"),
            _ => unsupported("without scripts this cannot be done: allow them with `RedisStore::scripts(true)`"),
        }
    }

    async fn decide_all(&self, requests: &[Request<'_>]) -> Result<Vec<Verdict>, StoreError> {
        match self.means.group(requests, self.clock.is_some())? {
            Group::Scripts(kinds) => self.run_all(&kinds, requests).await,
            Group::Logs => commands::decide(&self.link, || self.now(), Mode::Acquire, requests).await,
            Group::Each => unsupported("these keys cannot be decided in one step"),
        }
    }

    async fn run_all(&self, kinds: &[Kind], requests: &[Request<'_>]) -> Result<Vec<Verdict>, StoreError> {
        let now = self.now()?;
        let keys: Vec<Cow<'_, [u8]>> = kinds.iter().zip(requests).map(|(kind, request)| kind.key(request)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let args = |command: &mut Cmd| {
            wire::clock(command, now);
            for (kind, request) in kinds.iter().zip(requests) {
                wire::request(command, *kind, acquiring(request), request);
            }
        };
        let reply = script::ALL_OR_NONE.run(&self.link, &keys, args).await?;
        let Value::Array(replies) = reply else { return Err(unexpected_reply()) };
        let verdicts =
            replies.iter().map(wire::verdict).collect::<Option<Vec<Verdict>>>().ok_or_else(unexpected_reply)?;
        if verdicts.len() == requests.len() { Ok(verdicts) } else { Err(unexpected_reply()) }
    }

    /// The caller's time in microseconds; `None` for the server's.
    fn now(&self) -> Result<Option<u64>, StoreError> {
        let Some(clock) = &self.clock else { return Ok(None) };
        let now = clock.now().as_micros();
        match u64::try_from(now) {
            // Beyond this, the script could not add a window exactly.
            Ok(now) if u128::from(now) + MAX_WINDOW.as_micros() <= u128::from(MAX_COUNT) => Ok(Some(now)),
            _ => Err(StoreError::misconfigured("the clock of the Redis store is more than 284 years past its start")),
        }
    }
}

fn acquiring(request: &Request<'_>) -> Mode {
    if request.is_reservation() { Mode::Reserve } else { Mode::Acquire }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(self.decide(acquiring(&request), request))
    }

    fn decides_together(&self, requests: &[Request<'_>]) -> bool {
        // What cannot be done at all is said in one step, too.
        !matches!(self.means.group(requests, self.clock.is_some()), Ok(Group::Each))
    }

    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        Answer::later(self.decide_all(requests))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(self.decide(Mode::Peek, request))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(async move {
            let mut command = redis::cmd("UNLINK");
            command.arg(&*self.way(&request)?.key(&request));
            match self.link.send(&command).await? {
                Ok(Value::Int(removed)) => Ok(removed > 0),
                Ok(_) => Err(StoreError::unavailable("Redis gave a reply to UNLINK that is not a number")),
                Err(error) => Err(errors::from_server(&error)),
            }
        })
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        let mode = if request.is_reservation() { Mode::Release(ticket) } else { Mode::Refund(ticket) };
        Answer::later(self.order(mode, request))
    }

    fn commit<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Answer::later(self.order(Mode::Commit(ticket), request))
    }

    fn release<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Answer::later(self.order(Mode::Release(ticket), request))
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        Answer::later(async move { self.order(Mode::Block(duration), request).await.map(drop) })
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(self.order(Mode::Unblock, request))
    }

    fn capabilities(&self) -> Capabilities {
        self.means.capabilities(self.clock.is_some())
    }

    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.way(request).map(drop)
    }

    fn ready(&self) -> Answer<'_, ()> {
        Answer::later(self.link.ready())
    }
}

impl fmt::Debug for RedisStore {
    /// Without the user name and the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.link.client().get_connection_info();
        f.debug_struct("RedisStore")
            .field("address", &info.addr().to_string())
            .field("database", &info.redis_settings().db())
            .field("tls", &matches!(info.addr(), ConnectionAddr::TcpTls { .. }))
            .field("means", &self.means)
            .field("own_clock", &self.clock.is_some())
            .finish_non_exhaustive()
    }
}

const URL_FORM: &str = "the Redis URL is malformed: write redis://[user][:password]@host[:port][/database], with \
                        special characters of the password percent-encoded (`/` as %2F, `#` as %23, `?` as %3F)";

fn connection_info(url: &str) -> Result<ConnectionInfo, StoreError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => {}
        "rediss" | "valkeys" if cfg!(feature = "redis-tls") => {}
        "rediss" | "valkeys" => {
            return Err(StoreError::misconfigured(
                "a rediss:// URL needs the feature `redis-tls` of ratelimit-runtime",
            ));
        }
        _ => return Err(StoreError::misconfigured("a Redis URL starts with redis://, rediss:// or unix://")),
    }
    let info = url.into_connection_info().map_err(|_| StoreError::misconfigured(URL_FORM))?;

    let (_, query) = url.split_once('?').unwrap_or_default();
    let chosen = query.split(['&', '#']).any(|pair| pair.starts_with("protocol="));
    let protocol = if chosen { info.redis_settings().protocol() } else { ProtocolVersion::RESP3 };
    let settings = info.redis_settings().clone().set_protocol(protocol);
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp_settings()))
}

/// A connection whose other end has vanished is noticed within 30 seconds by the kernel too.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(Duration::from_secs(30));
    settings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::error::StoreErrorKind;

    #[test]
    fn urls() {
        for url in
            ["redis://h", "redis://u:p@h:1/2", "redis://:p%2Fq@h", "unix:///run/redis.sock?db=1", "redis://[::1]:7"]
        {
            assert!(RedisStore::new(url).is_ok(), "{url}");
        }
        let secret = "hunter2";
        for (url, expected) in [
            ("hunter2", "starts with redis://"),
            ("http://u:hunter2@h", "starts with redis://"),
            ("hunter2:6379", "starts with redis://"),
            ("redis://:hunter2/x@h", "percent-encoded"),
            ("redis://:hunter2#x@h", "percent-encoded"),
            ("redis://u:hunter2@h/notanumber", "percent-encoded"),
            ("redis://u:hunter2@h?protocol=hunter2", "percent-encoded"),
            ("redis://u:hunter2@", "percent-encoded"),
        ] {
            let error = RedisStore::new(url).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
            assert!(error.message().contains(expected), "{url}: {error}");
            assert!(!format!("{error:?}").contains(secret), "{error:?}");
        }
    }

    #[test]
    fn protocol_is_resp3_unless_chosen() {
        let protocol = |url| connection_info(url).unwrap().redis_settings().protocol();
        assert_eq!(protocol("redis://h"), ProtocolVersion::RESP3);
        assert_eq!(protocol("redis://h/0?protocol=resp2"), ProtocolVersion::RESP2);
        assert_eq!(protocol("redis://h/0?x=1&protocol=3"), ProtocolVersion::RESP3);
        assert_eq!(protocol("unix:///s?db=1&protocol=2"), ProtocolVersion::RESP2);
    }

    #[test]
    fn debug_shows_no_credentials() {
        let shown = format!("{:?}", RedisStore::new("redis://alice:hunter2@h:1/3").unwrap());
        assert!(shown.contains("h:1") && shown.contains('3'), "{shown}");
        assert!(!shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn sockets_send_at_once_and_notice_dead_peers() {
        let info = connection_info("redis://h").unwrap();
        assert!(info.tcp_settings().nodelay());
        assert!(info.tcp_settings().keepalive().is_some());
    }
}

//! [`RedisStore`]: limits kept on a Redis server, shared by every process that uses it.
//!
//! A decision is one call of a script, so it is atomic and one round trip. Each of these uses only
//! those before it:
//!
//! - `errors` sorts what Redis and the network report, and `backoff` paces attempts;
//! - `scripts` has the scripts, and writes a request as the call of one;
//! - `wire` opens a stream, logs in, and reads replies;
//! - `batching` lets calls share a round trip;
//! - `connection` keeps one connection open, and asks on it in order;
//! - `topology` knows the server of each key: one server, the master that Sentinel names, or the
//!   masters of a cluster;
//! - `permits` keeps the places of calls in flight;
//! - `transactions` and `redis_cell` decide where there are no scripts;
//! - `route` says which of these a request takes, and `backend` takes it there;
//! - `listing` lists the keys of a rule, and `builder` sets what a URL cannot say.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use self::backend::Backend;
use self::errors::unsupported;
use self::route::{GroupRoute, Settings};
use self::scripts::operation::Operation;
use self::topology::{Connections, Deployment};
use super::{
    Answer, Capabilities, Cursor, DenyCache, Entry, Health, Lookup, Page, PlaceRequest, Request, Store, Verdict,
    leaves_rest_to,
};
use crate::clock::WallClock;
use crate::error::StoreError;

mod backend;
mod backoff;
mod batching;
mod builder;
mod connection;
mod errors;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod listing;
mod mode;
mod permits;
mod redis_cell;
mod route;
pub(crate) mod scripts;
mod topology;
mod transactions;
mod wire;

pub(super) use self::connection::exchange::pending::PendingCharge;
pub use self::mode::RedisMode;
pub use self::scripts::layout::LogLayout;
pub use self::wire::credentials::RedisCredentials;

/// Limits on a Redis server or on a Redis Cluster (Redis 6.2 or later, or Valkey).
///
/// The connection is made in the background at the first call, one per tokio runtime, and made
/// again whenever it is lost; [`ready`](Store::ready) waits for it. While there is none, calls fail
/// at once and the limiter answers by its `on_unavailable` setting.
///
/// A call that is dropped at its timeout may have been charged although it was not admitted; this
/// store admits no call that it has not charged.
///
/// The user needs `EVAL`, `EVALSHA`, `UNLINK`, `PING`, and inside of scripts `TIME`, `PEXPIREAT`,
/// `PEXPIRE`, `PTTL`, `TYPE`, `GET`, `SET`, `UNLINK`, `GETRANGE`, `SETRANGE`, `STRLEN`,
/// `ZADD`, `ZCARD`, `ZCOUNT`, `ZSCORE`, `ZRANGE`, `ZREVRANGE`, `ZREM`, `ZREMRANGEBYRANK` and
/// `ZREMRANGEBYSCORE`, and `BITOP` for long logs to give memory back; `MGET` is used where it is
/// allowed. Without scripts, it needs what [`RedisMode::Transactions`] says. Lists of keys take
/// `SCAN`. With `ROLE`, or `INFO`, a process all of whose calls are refused notices that its
/// server has become a replica.
///
/// Of calls in flight ([`Store::enter`]), leases are renewed and places left by a task on the
/// runtime on which they entered; where that ends, or is not driven, by another one that uses the
/// store. Where there is none, a place stays taken until its lease ends.
pub struct RedisStore {
    cache: DenyCache<Backend>,
}

impl RedisStore {
    /// A store on the servers that the URL names:
    ///
    /// | URL | servers |
    /// | --- | --- |
    /// | `redis://[user][:password]@host[:port][/database]` | one |
    /// | `unix:///path/to/socket[?db=…&user=…&pass=…]` | one on this machine |
    /// | `redis+sentinel://[user][:password]@host[:port][,host[:port]…]/master-name[/database]` | the master that Sentinel knows by this name. The hosts are sentinels, at port 26379 unless said; `?sentinel_user=…&sentinel_password=…` is their login |
    /// | `redis+cluster://[user][:password]@host[:port][,host[:port]…]` | a cluster, of which these are some nodes |
    ///
    /// `rediss` in the place of `redis` is TLS (feature `redis-tls`); `valkey` and `valkeys` mean
    /// the same as `redis` and `rediss`. Special characters in a password or a name are
    /// percent-encoded. Connections speak RESP3 unless the URL says `?protocol=resp2`. What else
    /// there is to say, a method says: [`credentials`](Self::credentials) that change,
    /// [`client_name`](Self::client_name), and certificates.
    ///
    /// # Sentinel
    ///
    /// All sentinels are asked at once and the first answer counts, so one that is dead or frozen
    /// costs nothing; further ones are learnt, up to 16. A server is used if it says itself that it
    /// is a master. A fail-over is followed within two seconds after the first sentinel says where
    /// the master is, also away from an old master that still answers: while connected, each
    /// sentinel is asked every second. When none can be asked, the connection goes on, and a new
    /// one is made to the last master that was known. The user also needs `ROLE`, and that of the
    /// sentinels `SENTINEL GET-MASTER-ADDR-BY-NAME`, `SENTINEL MASTER` and `SENTINEL SENTINELS`.
    ///
    /// # Cluster
    ///
    /// `redis+cluster://a,b,c` names some of the nodes; the others are asked for, from whichever
    /// answers first. Keys spread over all slots by themselves. Each master has a connection of its
    /// own, made when one of its keys is first asked for, and a health of its own: a slow or dead
    /// one degrades the keys of its slots alone. Replicas are never asked. A password, TLS and all
    /// other settings hold for every node.
    ///
    /// Slots that move are followed (`MOVED`, `ASK`); a call that no node carries out now
    /// (`TRYAGAIN`, `CLUSTERDOWN`) is tried again for up to 35 ms within its timeout, and then
    /// fails as unavailable. While keys are asked for that no node serves, the slots are asked for
    /// again every 250 ms, so that a fail-over is followed within half a second of the cluster's
    /// own. A call whose reply is lost is never sent again. A replica that takes over has perhaps
    /// not heard of the last admissions, since Redis replicates asynchronously: as much may be
    /// admitted again.
    ///
    /// Keys of different slots do not share commands. Stacked rules are decided in one step where
    /// all their keys are in one slot; else one after the other: never more than a limit is
    /// admitted, and what a refused or cancelled call was charged is given back if this process
    /// lives, and else expires with the window.
    ///
    /// The user needs `CLUSTER SLOTS` as well, and `CLUSTER INFO` for [`ready`](Store::ready) to
    /// see whether the cluster is up.
    ///
    /// Returns at once and connects to nothing.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::StoreErrorKind::Misconfigured) if the URL is not one of
    /// these. The message never repeats the URL, which may hold a password. A master that no
    /// sentinel knows, a wrong password or certificate are `Misconfigured` when a call or
    /// [`ready`](Store::ready) meets them, and attempts go on, with pauses of up to a second: they
    /// may be made right without a restart.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        Deployment::from_url(url).map(Self::on)
    }

    fn on(deployment: Deployment) -> Self {
        let cluster = matches!(deployment, Deployment::Cluster(_));
        let settings = Settings { mode: RedisMode::default(), cluster, own_clock: false };
        let connections = Connections::new(deployment);
        let backend = Backend { connections, settings, clock: None, permits: OnceLock::new() };
        Self { cache: DenyCache::new(backend) }
    }

    fn connections_mut(&mut self) -> &mut Connections {
        let backend = self.cache.inner_mut();
        // Those that are open are of the connections as they were.
        backend.permits = OnceLock::new();
        &mut backend.connections
    }

    /// Sets with which commands the store decides: [`RedisMode::Scripts`] unless set.
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
        self.cache.inner_mut().settings.mode = mode;
        self
    }

    /// Whether calls that come at the same time share commands: yes unless set. A lone call is a
    /// command of its own either way. While it is on its way, those who come wait in this process,
    /// in order, and the next command carries them: for one key a single question for all who ask
    /// the same, and up to 64 keys at once, but in a cluster one. Redis decides each of them as if
    /// it had come alone. Peeks, refunds, releases, commits and blocks share commands with the
    /// calls on their key, in the order in which they came. Stacked rules share commands with each
    /// other: up to 32 keys at once, but in a cluster only those of the same keys.
    ///
    /// Without it, each call is a command, however many there are.
    #[must_use]
    pub fn group_commit(mut self, on: bool) -> Self {
        self.connections_mut().group_commit(on);
        self
    }

    /// Takes the time from `clock` instead of the server's `TIME`: for tests, and for services that
    /// refuse `TIME` in scripts.
    ///
    /// All processes that share a bucket must then have clocks that agree: one that runs ahead by
    /// *d* makes slots free *d* early for its own calls, and its admissions last *d* longer for the
    /// others. Keys still expire by the server's clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl WallClock) -> Self {
        let clock = Arc::new(clock);
        self.cache = self.cache.with_clock(Arc::clone(&clock));
        self.cache.inner_mut().clock = Some(clock);
        self.cache.inner_mut().permits = OnceLock::new();
        self.cache.inner_mut().settings.own_clock = true;
        self
    }

    /// Whether refusals are answered again from this process, for up to a second: yes unless set.
    /// [`DenyCache`] says what that means, and has the settings:
    /// `DenyCache::new(store.deny_cache(false))`.
    ///
    /// It holds up to 8,192 refusals, of some 180 bytes and the key each.
    #[must_use]
    pub fn deny_cache(mut self, on: bool) -> Self {
        self.cache = self.cache.with_capacity(if on { DenyCache::<Backend>::CAPACITY } else { 0 });
        self
    }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.acquire_after(request, Lookup::default())
    }

    fn acquire_after<'a>(&'a self, request: Request<'a>, lookup: Lookup) -> Answer<'a, Verdict> {
        match self.cache.look(&request, lookup) {
            Ok(refusal) => Answer::ready(Ok(refusal)),
            Err(lookup) => Answer::queued(&self.cache, request, lookup),
        }
    }

    leaves_rest_to!(self => self.cache);
}

impl Store for Backend {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(self.charge(request))
    }

    fn decides_together(&self, requests: &[Request<'_>]) -> bool {
        // A group with a request that cannot be done at all counts as one step, so that its error
        // is given at once.
        !matches!(self.group(requests), Ok(GroupRoute::Each))
    }

    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        Answer::later(async move {
            match self.group(requests)? {
                GroupRoute::Script => self.decide_scripts(requests).await,
                GroupRoute::Logs => self.decide_logs(requests).await,
                GroupRoute::Each => unsupported("these keys cannot be decided in one step"),
            }
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(self.decide(Operation::Peek, request))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(async move { self.forget(&request).await })
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        let operation = if request.is_reservation() { Operation::Release(ticket) } else { Operation::Refund(ticket) };
        Answer::later(self.change(operation, request))
    }

    fn commit<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Answer::later(self.change(Operation::Commit(ticket), request))
    }

    fn commit_actual<'a>(&'a self, request: Request<'a>, ticket: u64, actual_cost: u64) -> Answer<'a, u64> {
        Answer::later(self.commit_at(request, ticket, actual_cost))
    }

    fn release<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Answer::later(self.change(Operation::Release(ticket), request))
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        Answer::later(async move { self.change(Operation::Block(duration), request).await.map(drop) })
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(self.change(Operation::Unblock, request))
    }

    fn enter<'a>(&'a self, place: PlaceRequest<'a>, requests: &'a [Request<'a>]) -> Answer<'a, Entry> {
        Answer::later(self.take_place(place, requests))
    }

    fn enters_together(&self, place: &PlaceRequest<'_>, requests: &[Request<'_>]) -> bool {
        Self::enters_together(self, place, requests)
    }

    fn leave(&self, place: PlaceRequest<'_>) {
        // Without permits there is nothing to leave.
        if let Some(permits) = self.permits.get() {
            permits.leave(place.permit());
        }
    }

    fn in_flight<'a>(&'a self, place: PlaceRequest<'a>) -> Answer<'a, u64> {
        Answer::later(async move { self.permits()?.in_flight(place).await })
    }

    fn keys<'a>(&'a self, request: Request<'a>, from: Option<Cursor>) -> Answer<'a, Page> {
        Answer::later(async move { self.list(&request, from).await })
    }

    fn capabilities(&self) -> Capabilities {
        self.settings.capabilities()
    }

    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.route(request).map(drop)
    }

    fn server(&self) -> &str {
        self.connections.server()
    }

    fn health(&self, request: &Request<'_>) -> Health {
        self.connections.health(self.slot(request))
    }

    fn epoch(&self, _request: &Request<'_>) -> u64 {
        self.connections.count()
    }

    fn overdue(&self, request: &Request<'_>, timeout: Duration) {
        self.connections.overdue(self.slot(request), timeout);
    }

    fn ready(&self) -> Answer<'_, ()> {
        Answer::later(self.connections.ready())
    }

    fn ready_for<'a>(&'a self, request: Request<'a>) -> Answer<'a, ()> {
        Answer::later(self.connections.ready_for(self.slot(&request)))
    }
}

impl fmt::Debug for RedisStore {
    /// Without the user name and the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = self.cache.inner();
        let deployment = backend.connections.deployment();
        f.debug_struct("RedisStore")
            .field("address", &deployment.to_string())
            .field("database", &deployment.database())
            .field("tls", &deployment.tls().is_some())
            .field("settings", &backend.settings)
            .field("deny_cache", &self.cache.is_on())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    /// It is part of the future of every call.
    #[test]
    fn what_a_call_waits_with_is_small() {
        let size = size_of::<Answer<'_, Verdict>>();
        assert!(size <= 208, "{size}");
    }

    #[test]
    fn debug_shows_no_credentials() {
        let shown = format!("{:?}", RedisStore::new("redis://alice:hunter2@h:1/3").unwrap());
        assert!(shown.contains("h:1") && shown.contains('3'), "{shown}");
        assert!(!shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
    }
}

//! The ring, in which Redis keeps the log of calls that may weigh anything: the same answers as the
//! memory store to the microsecond while it grows, wraps around, shrinks and starts anew, and what
//! it leaves on the server. The random runs are in `random_runs`; here is what they may miss.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::redis::{RedisServer, shared};
use crate::support::unique;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, LogLayout, MemoryStore, RedisMode, RedisStore, Store};
use tokio::task::JoinSet;

mod foreign;
mod random_runs;

const MINUTE: u64 = 60_000_000;

pub(super) fn per(max: u64, micros: u64) -> Limit {
    Limit::new(max, Duration::from_micros(micros))
}

/// An admission: its tickets in memory and on Redis, its cost, whether it is reserved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted {
    memory: u64,
    redis: u64,
    cost: u64,
    pub(super) held: bool,
}

/// A log in memory and the same on Redis. Everything done is done to both, and what they say
/// compared.
pub(super) struct Pair {
    memory: MemoryStore,
    redis: RedisStore,
    clock: FakeClock,
    key: String,
    newest: u64,
}

impl Pair {
    pub(super) async fn on(server: &RedisServer) -> Self {
        let clock = FakeClock::new();
        let redis = RedisStore::new(&server.url()).unwrap().with_clock(clock.clone());
        let redis = redis.mode(RedisMode::ScriptsWith(LogLayout::Ring)).deny_cache(false);
        redis.ready().await.unwrap();
        let memory = MemoryStore::new().with_clock(clock.clone());
        Self { memory, redis, clock, key: unique("ring"), newest: 0 }
    }

    pub(super) async fn new() -> Self {
        Self::on(shared()).await
    }

    pub(super) fn request<'a>(&'a self, limits: &'a [Limit]) -> Request<'a> {
        Request::new(self.key.as_bytes(), Algorithm::SlidingWindow, limits)
    }

    /// What the log is kept under.
    pub(super) fn stored(&self) -> String {
        self.key.clone()
    }

    pub(super) fn pass(&self, micros: u64) {
        self.clock.advance(Duration::from_micros(micros));
    }

    pub(super) async fn call(
        &mut self,
        limits: &[Limit],
        cost: u64,
        held: bool,
        block: u64,
    ) -> (Verdict, Option<Admitted>) {
        let mut request = self.request(limits).with_cost(cost).with_block(Duration::from_micros(block));
        if held {
            request = request.reserving();
        }
        let (ours, theirs) = (self.memory.acquire(request).await.unwrap(), self.redis.acquire(request).await.unwrap());
        same(ours, theirs);
        assert_eq!(theirs.ticket != 0, theirs.allowed && cost > 0);
        if theirs.ticket == 0 {
            return (theirs, None);
        }
        assert!(theirs.ticket > self.newest, "the ticket {} comes after {}", theirs.ticket, self.newest);
        self.newest = theirs.ticket;
        (theirs, Some(Admitted { memory: ours.ticket, redis: theirs.ticket, cost, held }))
    }

    pub(super) async fn admit(&mut self, limit: Limit, cost: u64) -> Admitted {
        self.call(&[limit], cost, false, 0).await.1.unwrap()
    }

    pub(super) async fn peek(&self, limits: &[Limit], cost: u64) -> Verdict {
        let request = self.request(limits).with_cost(cost);
        let theirs = self.redis.peek(request).await.unwrap();
        same(self.memory.peek(request).await.unwrap(), theirs);
        theirs
    }

    pub(super) async fn refund(&self, limits: &[Limit], admitted: Admitted) -> bool {
        let mut request = self.request(limits).with_cost(admitted.cost);
        if admitted.held {
            request = request.reserving();
        }
        let ours = self.memory.refund(request, admitted.memory).await.unwrap();
        assert_eq!(self.redis.refund(request, admitted.redis).await.unwrap(), ours, "the refund of {admitted:?}");
        ours
    }

    pub(super) async fn commit(&self, limits: &[Limit], admitted: Admitted) -> bool {
        let request = self.request(limits).with_cost(admitted.cost).reserving();
        let ours = self.memory.commit(request, admitted.memory).await.unwrap();
        assert_eq!(self.redis.commit(request, admitted.redis).await.unwrap(), ours, "the commit of {admitted:?}");
        ours
    }
}

#[track_caller]
fn same(memory: Verdict, redis: Verdict) {
    assert_eq!(redis.with_ticket(0), memory.with_ticket(0), "Redis (left) is not as the memory store (right)");
}

#[tokio::test]
async fn a_slot_is_free_to_the_microsecond_wherever_it_is_in_the_ring() {
    for max in [1, 16, 17, 255, 256, 257, 1000] {
        let mut pair = Pair::new().await;
        let limit = per(max, MINUTE);
        for _ in 0..max {
            pair.admit(limit, 1).await;
            pair.pass(10);
        }
        // Around the ring, and a little more.
        for _ in 0..max + 20 {
            let (refused, _) = pair.call(&[limit], 1, false, 0).await;
            assert!(!refused.allowed);
            pair.pass(refused.retry_after_us - 1);
            assert_eq!(pair.call(&[limit], 1, false, 0).await.0.retry_after_us, 1);
            pair.pass(1);
            pair.admit(limit, 1).await;
            pair.pass(9);
        }
    }
}

#[tokio::test]
async fn admissions_of_one_microsecond_are_told_apart() {
    let mut pair = Pair::new().await;
    let limit = per(2000, MINUTE);
    let mut admitted = Vec::new();
    for _ in 0..700 {
        admitted.push(pair.admit(limit, 2).await);
    }
    assert_eq!(admitted.iter().map(|one| one.redis).collect::<BTreeSet<_>>().len(), 700);
    // The first, the last, and some in between; each once.
    for at in [0, 699, 350, 255, 256, 511, 512] {
        let left = pair.peek(&[limit], 1).await.remaining;
        assert!(pair.refund(&[limit], admitted[at]).await);
        assert_eq!(pair.peek(&[limit], 1).await.remaining, left + 2);
        assert!(!pair.refund(&[limit], admitted[at]).await);
        assert_eq!(pair.peek(&[limit], 1).await.remaining, left + 2);
    }
    pair.pass(MINUTE);
    assert!(!pair.refund(&[limit], admitted[1]).await);
    assert_eq!(pair.peek(&[limit], 1).await.remaining, 2000);
}

#[tokio::test]
async fn the_ticket_of_a_refund_is_not_given_again() {
    let mut pair = Pair::new().await;
    let limit = per(10, MINUTE);
    let first = pair.admit(limit, 1).await;
    assert!(pair.refund(&[limit], first).await);
    let second = pair.admit(limit, 1).await;
    assert_ne!(first.redis, second.redis);
    let request = pair.request(std::slice::from_ref(&limit));
    assert!(!pair.redis.refund(request, first.redis).await.unwrap());
    assert_eq!(pair.redis.peek(request).await.unwrap().remaining, 9);
}

#[tokio::test]
async fn numbers_that_do_not_fit_a_slot_widen_it() {
    let mut pair = Pair::new().await;
    let limit = per(Limit::MAX_COUNT, MINUTE);
    let mut admitted = Vec::new();
    for call in 0..600 {
        admitted.push(pair.call(&[limit], call + 1, call % 3 == 0, 0).await.1.unwrap());
        pair.pass(call % 2);
    }
    let narrow = shared().cli(&["STRLEN", &pair.stored()]).parse::<u64>().unwrap();
    admitted.push(pair.admit(limit, (1 << 23) - 1).await);
    assert_eq!(shared().cli(&["STRLEN", &pair.stored()]).parse::<u64>().unwrap(), narrow);
    admitted.push(pair.admit(limit, 1 << 23).await);
    assert!(shared().cli(&["STRLEN", &pair.stored()]).parse::<u64>().unwrap() > narrow);
    admitted.push(pair.call(&[limit], 1 << 51, true, 0).await.1.unwrap());
    for at in [602, 0, 601, 255, 600, 300] {
        if admitted[at].held {
            assert!(pair.commit(&[limit], admitted[at]).await);
        }
        assert!(pair.refund(&[limit], admitted[at]).await);
    }
    let _ = pair.peek(&[limit], Limit::MAX_COUNT).await;
    pair.pass(MINUTE);
    assert_eq!(pair.peek(&[limit], 1).await.remaining, Limit::MAX_COUNT);
    pair.admit(limit, 1).await;
    assert!(shared().cli(&["STRLEN", &pair.stored()]).parse::<u64>().unwrap() < 128, "narrow again");
}

/// Logs that are short, full, or have sums, that are wrapped around their end, or of which some
/// entries are refunded or reserved.
#[tokio::test]
async fn slots_that_are_widened_keep_what_they_hold() {
    let limits = [per(1 << 40, MINUTE), per(1 << 41, 10 * MINUTE)];
    for entries in [1, 7, 300, 700] {
        for held in [false, true] {
            for refunded in [0, 3, 5] {
                let mut pair = Pair::new().await;
                for _ in 0..entries {
                    let _ = pair.call(&limits, 1, false, 0).await;
                }
                pair.pass(9 * MINUTE);
                let mut admitted = Vec::new();
                for call in 0..entries {
                    let cost = if call % 50 == 0 { (1 << 23) - 1 } else { call + 1 };
                    admitted.push(pair.call(&limits, cost, held && call % 4 == 0, 0).await.1.unwrap());
                    pair.pass(call % 2);
                }
                for entry in
                    admitted.iter().skip(1).step_by(5).take(usize::try_from(entries).unwrap() / 5 * refunded / 5)
                {
                    assert!(pair.refund(&limits, *entry).await);
                }
                // The first half has left.
                pair.pass(MINUTE);
                let stored = pair.stored();
                let flags = || {
                    let script = "return string.byte(redis.call('GETRANGE', KEYS[1], 1, 1))";
                    shared().cli(&["EVAL", script, "1", &stored]).parse::<u64>().unwrap()
                };
                assert_eq!(flags() % 2, 0, "narrow slots");
                admitted.push(pair.call(&limits, 1 << 23, held, 0).await.1.unwrap());
                assert_eq!(flags() % 2, 1, "wide slots");
                let _ = pair.peek(&limits, 1 << 40).await;
                for entry in admitted.into_iter().skip(2).step_by(5) {
                    if entry.held {
                        assert!(pair.commit(&limits, entry).await);
                    }
                    assert!(pair.refund(&limits, entry).await);
                }
                let _ = pair.call(&limits, 1 << 30, false, 0).await;
                let _ = pair.peek(&limits, 1 << 40).await;
                let _ = pair.peek(&limits, 1 << 41).await;
            }
        }
    }
}

#[tokio::test]
async fn room_follows_the_entries() {
    let server = shared();
    let length = |pair: &Pair| server.cli(&["STRLEN", &pair.stored()]).parse::<u64>().unwrap();
    let mut pair = Pair::new().await;
    let limit = per(5000, MINUTE);
    for _ in 0..3000 {
        pair.admit(limit, 1).await;
        pair.pass(1000);
    }
    assert!(length(&pair) < 3000 * 20, "grown by half at most, to {}", length(&pair));
    // From here on one leaves for each that comes, then two.
    pair.pass(MINUTE - 3000 * 1000);
    let full = length(&pair);
    for _ in 0..3000 {
        pair.admit(limit, 1).await;
        pair.pass(1000);
    }
    assert_eq!(length(&pair), full, "the ring wraps around");
    pair.pass(MINUTE - 3000 * 1000);
    for _ in 0..1500 {
        pair.admit(limit, 1).await;
        pair.pass(2000);
    }
    for _ in 0..40 {
        pair.pass(MINUTE / 40);
        pair.admit(limit, 1).await;
    }
    // The call that comes past many entries leaves the rest of the work to the next one.
    pair.admit(limit, 1).await;
    assert!(length(&pair) < 40 * 24 + 200, "shrunk to {}", length(&pair));
    // At once, when the newest has expired.
    for _ in 0..600 {
        pair.admit(limit, 1).await;
    }
    pair.pass(MINUTE);
    pair.admit(limit, 1).await;
    assert!(length(&pair) < 128, "anew with {}", length(&pair));
}

#[tokio::test]
async fn reservations_given_back_take_no_room() {
    let mut pair = Pair::new().await;
    let limit = per(300, 3600 * 1_000_000);
    let mut open = Vec::new();
    // Never fewer than 200 are open, so that the last is never the one given back; some are kept.
    for call in 0..6000_usize {
        open.push(pair.call(&[limit], 1, true, 0).await.1.unwrap());
        pair.pass(100);
        if open.len() > 200 {
            let oldest = open.remove(call % 150);
            if call % 100 == 0 && call < 3000 {
                assert!(pair.commit(&[limit], oldest).await);
            } else {
                assert!(pair.refund(&[limit], oldest).await);
            }
        }
    }
    let length = shared().cli(&["STRLEN", &pair.stored()]).parse::<u64>().unwrap();
    assert!(length < 15_000, "{length} bytes for some 230 entries");
    assert!(pair.peek(&[limit], 300).await.retry_after_us > 0);
    while let Some(last) = open.pop() {
        assert!(pair.refund(&[limit], last).await);
    }
    assert_eq!(pair.peek(&[limit], 1).await.remaining, 272);
}

#[tokio::test]
async fn many_that_expire_at_once_are_passed_exactly() {
    for live in [1, 255, 256, 300, 600] {
        let mut pair = Pair::new().await;
        let limits = [per(1_000_000, MINUTE), per(500_000, MINUTE / 2)];
        for call in 0..3000 {
            pair.call(&limits, 1 + call % 7, call % 5 == 0, 0).await.1.unwrap();
            pair.pass(3);
        }
        pair.pass(MINUTE / 2);
        for _ in 0..live {
            pair.call(&limits, 3, false, 0).await.1.unwrap();
            pair.pass(1);
        }
        for cost in [1, 2, 490_000, 499_999, 500_000] {
            let _ = pair.peek(&limits, cost).await;
        }
        pair.pass(MINUTE / 2 - 1000);
        for cost in [1, 2, 490_000, 499_999, 500_000] {
            let _ = pair.peek(&limits, cost).await;
        }
        pair.pass(800);
        pair.call(&limits, 5, false, 0).await.1.unwrap();
        let _ = pair.peek(&limits, 500_000).await;
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_admits_no_more() {
    let mut pair = Pair::new().await;
    let limit = per(400, MINUTE);
    for _ in 0..300 {
        pair.admit(limit, 1).await;
        pair.pass(1000);
    }
    pair.clock.step_back(Duration::from_secs(5));
    let request = pair.request(std::slice::from_ref(&limit));
    let mut tickets = BTreeSet::new();
    for _ in 0..100 {
        let verdict = pair.redis.acquire(request).await.unwrap();
        assert!(verdict.allowed && tickets.insert(verdict.ticket), "{verdict:?}");
    }
    // The key's own expiry, which bounds both, is in milliseconds.
    let (refused, most) = (pair.redis.acquire(request).await.unwrap(), MINUTE + 1000);
    assert!(!refused.allowed && refused.retry_after_us <= most && refused.reset_after_us <= most, "{refused:?}");
    let left = shared().cli(&["PTTL", &pair.stored()]).parse::<u64>().unwrap();
    assert!(left <= MINUTE / 1000, "{left} ms left");
    assert!(pair.redis.refund(request, *tickets.last().unwrap()).await.unwrap());
    assert!(pair.redis.acquire(request).await.unwrap().allowed);
}

#[tokio::test]
async fn looks_and_refusals_write_nothing() {
    let server = RedisServer::start();
    let writes = || {
        server
            .cli(&["INFO", "persistence"])
            .lines()
            .find_map(|l| l.strip_prefix("rdb_changes_since_last_save:").map(|n| n.trim().to_owned()))
            .unwrap()
    };
    for max in [3, 10, 400] {
        let mut pair = Pair::on(&server).await;
        let limit = per(max, MINUTE);
        let mut last = None;
        for _ in 0..max {
            last = Some(pair.admit(limit, 1).await);
        }
        let before = writes();
        assert!(!pair.call(&[limit], 1, false, 0).await.0.allowed);
        assert!(!pair.call(&[limit], 2, true, 0).await.0.allowed);
        assert!(pair.peek(&[limit], 0).await.allowed);
        assert!(pair.call(&[limit.with_max(max + 1)], 0, false, 0).await.0.allowed);
        assert!(!pair.commit(&[limit], last.unwrap()).await);
        pair.pass(MINUTE);
        assert!(pair.peek(&[limit], 1).await.allowed);
        assert!(!pair.refund(&[limit], last.unwrap()).await);
        assert_eq!(writes(), before);
    }
}

#[tokio::test]
async fn nothing_given_back_makes_a_key() {
    let pair = Pair::new().await;
    let limits = [per(5, MINUTE)];
    let request = pair.request(&limits);
    assert!(!pair.redis.refund(request, 1).await.unwrap());
    assert!(!pair.redis.release(request.reserving(), 1).await.unwrap());
    assert!(!pair.redis.commit(request.reserving(), 1).await.unwrap());
    assert!(!pair.redis.unblock(request).await.unwrap());
    assert!(pair.redis.peek(request).await.unwrap().allowed);
    assert!(pair.redis.acquire(request.with_cost(0)).await.unwrap().allowed);
    assert_eq!(shared().cli(&["EXISTS", &pair.stored()]), "0");
}

#[tokio::test]
async fn an_entry_takes_fifteen_bytes() {
    let server = shared();
    for max in [1000, 10_000] {
        let key = unique("bytes");
        let store = RedisStore::new(&server.url()).unwrap().mode(RedisMode::ScriptsWith(LogLayout::Ring));
        store.ready().await.unwrap();
        let limits = [per(max, 3600 * 1_000_000)];
        for _ in 0..max {
            let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
            assert!(store.acquire(request).await.unwrap().allowed);
        }
        let bytes = server.cli(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).parse::<u64>().unwrap();
        assert!(bytes <= 15 * max + 200, "{bytes} bytes for {max} entries");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_killed_leave_no_key_that_stays() {
    let server = RedisServer::start();
    let mut calls = JoinSet::new();
    for caller in 0..8_u64 {
        let url = server.url();
        calls.spawn(async move {
            let store = RedisStore::new(&url).unwrap().mode(RedisMode::ScriptsWith(LogLayout::Ring));
            let limits = [per(10_000, MINUTE)];
            let mut admitted = 0_u64;
            for call in 0..1500_u64 {
                let key = format!("killed-{}", (caller + call) % 5);
                let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
                // It fails while the connection is gone.
                let Ok(verdict) = store.acquire(request.with_block(Duration::from_secs(1))).await else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                };
                admitted += u64::from(verdict.allowed);
                if call % 4 == 0 && verdict.ticket != 0 {
                    let _ = store.refund(request, verdict.ticket).await;
                }
            }
            admitted
        });
    }
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }
    let admitted: u64 = calls.join_all().await.into_iter().sum();
    assert!(admitted > 0);
    let keys = server.cli(&["KEYS", "*"]);
    assert!(!keys.is_empty());
    for key in keys.lines() {
        let left = server.cli(&["PTTL", key]).parse::<i64>().unwrap();
        // Two windows, from the second admission on.
        assert!((1..=120_000).contains(&left), "{key} has {left} ms left");
    }
}

#[tokio::test]
async fn a_full_server_leaves_the_log_as_it_was() {
    let server = RedisServer::start();
    for entries in [5, 16, 24, 300] {
        let mut pair = Pair::on(&server).await;
        let limit = per(1000, MINUTE);
        for _ in 0..entries {
            pair.admit(limit, 1).await;
        }
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        let request = pair.request(std::slice::from_ref(&limit));
        assert!(pair.redis.acquire(request).await.is_err());
        assert_eq!(pair.peek(&[limit], 1).await.remaining, 1000 - entries);
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        pair.admit(limit, 1).await;
        assert_eq!(pair.peek(&[limit], 1).await.remaining, 999 - entries);
    }
}

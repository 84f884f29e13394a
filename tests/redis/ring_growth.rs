//! A long ring makes room in bounded pieces: what the script reads and writes is counted, call by
//! call, while the log grows to 100,000 entries, wraps around, is refunded and shrinks; and its
//! answers stay those of the memory store.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::ring::{Admitted, Pair, per};
use crate::support::redis::RedisServer;
use crate::support::unique;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, LogLayout, RedisMode, RedisStore, Store};
use tokio::task::JoinSet;

const MINUTE: u64 = 60_000_000;
const HOUR: u64 = 60 * MINUTE;
/// What may go through Lua in one call. A copy of 68 KB takes far less than 250 µs.
const MOST_BYTES: usize = 68 * 1024;
/// Six refunds of one key share a call: each is loaded by five, looks for its entry in up to 16
/// steps, and marks it in the entry, the sums and the head. (A refusal goes past entries three
/// times for each of two limits, with nine commands each time, and has a call to itself.)
const MOST_COMMANDS: usize = 6 * (5 + 16 + 4);
/// Redis itself copies a string of this length at most, to give back the room it has added of its
/// own accord.
const MOST_COPIED: usize = 1_500_000;

/// What one script call did to the key.
#[derive(Debug, Clone, Default)]
struct Work {
    bytes: usize,
    copies: usize,
    /// Each with what it has in bytes or places.
    commands: Vec<String>,
}

/// Watches the scripts of a server.
struct Watch {
    end: String,
    calls: JoinHandle<Vec<Work>>,
}

impl Watch {
    fn on(server: &RedisServer) -> Self {
        let end = unique("end");
        let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        socket.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::with_capacity(1 << 20, socket);
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).unwrap();
        assert_eq!(line, b"+OK\r\n");
        let last = end.clone().into_bytes();
        let calls = std::thread::spawn(move || {
            let (mut calls, mut work) = (Vec::new(), Work::default());
            loop {
                line.clear();
                lines.read_until(b'\n', &mut line).unwrap();
                let source = line.iter().position(|&byte| byte == b']').unwrap();
                if line[..source].ends_with(b" lua") {
                    work.add(&line[source + 2..]);
                } else if !work.commands.is_empty() {
                    calls.push(std::mem::take(&mut work));
                }
                if line.len() < 200 && line.windows(last.len()).any(|part| part == last) {
                    return calls;
                }
            }
        });
        Self { end, calls }
    }

    /// All calls there were; each is checked to be a bounded piece of work.
    #[track_caller]
    fn bounded(self, server: &RedisServer) -> Vec<Work> {
        server.cli(&["ECHO", &self.end]);
        let calls = self.calls.join().unwrap();
        for Work { bytes, copies, commands } in &calls {
            let count = commands.len();
            let bounded = *bytes <= MOST_BYTES && count <= MOST_COMMANDS && *copies <= 1;
            assert!(bounded, "{bytes} bytes, {copies} copies, {count} commands: {commands:#?}");
        }
        calls
    }
}

impl Work {
    /// A command as MONITOR shows it: each argument in quotes.
    fn add(&mut self, command: &[u8]) {
        let args = arguments(command);
        let number = |at: usize| std::str::from_utf8(&args[at]).unwrap().parse::<usize>().unwrap();
        let shown = args.iter().map(|arg| match std::str::from_utf8(arg) {
            Ok(text) if text.len() < 20 => text.to_owned(),
            _ => format!("({} bytes)", arg.len()),
        });
        self.commands.push(shown.collect::<Vec<_>>().join(" "));
        match args[0].as_slice() {
            b"GETRANGE" => self.bytes += number(3) + 1 - number(2),
            b"SETRANGE" => self.bytes += args[3].len(),
            b"SET" => self.bytes += args[2].len(),
            b"BITOP" => self.copies += 1,
            b"TYPE" | b"STRLEN" | b"PTTL" | b"PEXPIRE" | b"UNLINK" | b"ZRANGE" => {}
            other => panic!("{} is not counted", String::from_utf8_lossy(other)),
        }
    }
}

fn arguments(command: &[u8]) -> Vec<Vec<u8>> {
    let (mut args, mut arg, mut inside) = (Vec::new(), Vec::new(), false);
    let mut bytes = command.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if inside => {
                args.push(std::mem::take(&mut arg));
                inside = false;
            }
            b'"' => inside = true,
            b'\\' => {
                // Either a letter, or `x` and two digits: one byte, whichever.
                if bytes.next() == Some(b'x') {
                    bytes.nth(1).unwrap();
                }
                arg.push(b'?');
            }
            _ if inside => arg.push(byte),
            _ => {}
        }
    }
    args
}

/// A ring of its own server, driven by many callers at once.
struct Ring {
    server: RedisServer,
    store: Arc<RedisStore>,
    clock: FakeClock,
    limit: Limit,
}

impl Ring {
    async fn new(limit: Limit) -> Self {
        let server = RedisServer::start();
        // A monitor that reads slowly must not be cut off.
        server.cli(&["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"]);
        let clock = FakeClock::new();
        let store = RedisStore::new(&server.url())
            .unwrap()
            .with_clock(clock.clone())
            .mode(RedisMode::ScriptsWith(LogLayout::Ring));
        store.ready().await.unwrap();
        Self { server, store: Arc::new(store), clock, limit }
    }

    /// The tickets of as many admissions.
    async fn admit(&self, count: usize) -> Vec<u64> {
        let mut tickets = Vec::new();
        // Tickets must not run away from a clock that stands still.
        for _ in 0..count / 1_000 {
            let some = self.each(vec![0; 1_000], |store, limit, _| async move {
                let verdict = store.acquire(Request::new(b"ring", Algorithm::SlidingWindow, &[limit])).await.unwrap();
                assert!(verdict.allowed);
                verdict.ticket
            });
            tickets.append(&mut some.await);
            self.pass(1_000);
        }
        tickets
    }

    async fn refund(&self, tickets: Vec<u64>) {
        let all = self.each(tickets, |store, limit, ticket| async move {
            u64::from(store.refund(Request::new(b"ring", Algorithm::SlidingWindow, &[limit]), ticket).await.unwrap())
        });
        assert!(all.await.into_iter().all(|one| one == 1));
    }

    async fn each<F: Future<Output = u64> + Send + 'static>(
        &self,
        tickets: Vec<u64>,
        ask: impl Fn(Arc<RedisStore>, Limit, u64) -> F + Send + Copy + 'static,
    ) -> Vec<u64> {
        let mut callers = JoinSet::new();
        for part in tickets.chunks(tickets.len().div_ceil(64).max(1)) {
            let (store, limit, part) = (Arc::clone(&self.store), self.limit, part.to_vec());
            callers.spawn(async move {
                let mut answers = Vec::with_capacity(part.len());
                for ticket in part {
                    answers.push(ask(Arc::clone(&store), limit, ticket).await);
                }
                answers
            });
        }
        let mut answers = callers.join_all().await.concat();
        answers.sort_unstable();
        answers
    }

    async fn left(&self) -> u64 {
        let request = Request::new(b"ring", Algorithm::SlidingWindow, std::slice::from_ref(&self.limit));
        self.store.peek(request).await.unwrap().remaining
    }

    fn pass(&self, micros: u64) {
        self.clock.advance(Duration::from_micros(micros));
    }

    fn memory(&self) -> i64 {
        self.server.number(&["MEMORY", "USAGE", "ring", "SAMPLES", "0"])
    }

    fn length(&self) -> usize {
        self.server.cli(&["STRLEN", "ring"]).parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growing_to_100_000_entries_is_bounded_work_per_call() {
    let ring = Ring::new(per(100_000, HOUR)).await;
    let watch = Watch::on(&ring.server);
    // In a row, and then around the end, because the first ones leave.
    for _ in 0..4 {
        let _ = ring.admit(5_000).await;
        ring.pass(HOUR / 5);
    }
    ring.pass(HOUR / 5 + 1);
    assert_eq!(ring.left().await, 85_000);
    let _ = ring.admit(20_000).await;
    ring.pass(HOUR / 5);
    let _ = ring.admit(70_000).await;
    assert_eq!(ring.left().await, 0);
    let calls = watch.bounded(&ring.server);
    assert!(calls.iter().filter(|work| work.bytes > 20_000).count() > 10, "it has had to move entries");
    assert!(ring.memory() <= 15 * 100_000 + 500, "{} bytes", ring.memory());
    assert!(ring.length() <= MOST_COPIED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shrinking_is_bounded_work_per_call() {
    let ring = Ring::new(per(40_000, HOUR)).await;
    for count in [20_000, 15_000, 4_000, 1_000] {
        let _ = ring.admit(count).await;
        ring.pass(HOUR / 8);
    }
    let watch = Watch::on(&ring.server);
    let full = ring.length();
    ring.pass(HOUR / 2 + 1);
    // It stays as long as it is until there are few enough to be written anew.
    for live in [20_000, 6_000, 3_000] {
        assert_eq!(ring.left().await, 40_000 - live);
        let _ = ring.admit(1_000).await;
        assert_eq!(ring.length(), full);
        ring.pass(HOUR / 8);
    }
    ring.pass(HOUR / 8 * 5);
    assert_eq!(ring.left().await, 38_000);
    let _ = ring.admit(1_000).await;
    assert!(ring.length() < full / 8, "{} bytes for 3,000 entries", ring.length());
    let _ = watch.bounded(&ring.server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeping_what_was_refunded_is_bounded_work_per_call() {
    const BEFORE: usize = 12_000;
    const AFTER: usize = 8_000;
    for (every, first) in [(10, 0), (2, 0), (1000, 999), (BEFORE, BEFORE - 1)] {
        let ring = Ring::new(per(40_000, HOUR)).await;
        let tickets = ring.admit(BEFORE).await;
        let length = ring.length();
        let watch = Watch::on(&ring.server);
        let dead = tickets.iter().enumerate().filter(|(at, _)| at % every != first).map(|(_, ticket)| *ticket);
        ring.refund(dead.collect()).await;
        let live = BEFORE / every;
        assert_eq!(ring.left().await, u64::try_from(40_000 - live).unwrap());
        // Enough to fill what room there was, so that something has to be swept.
        let more = ring.admit(AFTER).await;
        assert_eq!(ring.left().await, u64::try_from(40_000 - live - AFTER).unwrap());
        let _ = watch.bounded(&ring.server);
        // While it is swept, it may grow by two blocks, or by half of what lives.
        let most = (length + 2 * 256 * 13).max(19 * (live + AFTER));
        assert!(ring.length() <= most, "{} bytes for {} entries", ring.length(), live + AFTER);
        // Each that is left can still be refunded, once.
        ring.refund(more).await;
        let kept = tickets.iter().enumerate().filter(|(at, _)| at % every == first).map(|(_, ticket)| *ticket);
        ring.refund(kept.collect()).await;
        assert_eq!(ring.left().await, 40_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refunds_one_after_the_other_do_not_make_a_log_long() {
    // Always somebody in the window, so that the dead never are at the end when they die.
    let ring = Ring::new(per(2_000, HOUR)).await;
    let mut open = ring.admit(1_000).await;
    let watch = Watch::on(&ring.server);
    for _ in 0..30 {
        let next = ring.admit(1_000).await;
        ring.refund(std::mem::replace(&mut open, next)).await;
    }
    assert_eq!(ring.left().await, 1_000);
    let _ = watch.bounded(&ring.server);
    assert!(ring.length() < 12 * 6_000, "{} bytes for 1,000 entries", ring.length());
}

#[tokio::test]
async fn sweeping_counts_for_each_window_what_is_in_it() {
    let server = RedisServer::start();
    let limits = [per(9_000, MINUTE), per(4_000, MINUTE / 4)];
    for every in [2, 3, 7, 400] {
        let mut pair = Pair::on(&server).await;
        let mut admitted = Vec::new();
        // Most of the first ones have left the shorter window.
        for count in [1_500, 700] {
            for _ in 0..count {
                admitted.push(pair.call(&limits, 1, false, 0).await.1.unwrap());
                pair.pass(1_000);
            }
            pair.pass(MINUTE / 4 - 800_000);
        }
        for (at, one) in admitted.iter().enumerate() {
            if at % every != 0 {
                assert!(pair.refund(&limits, *one).await);
            }
        }
        for call in 0..2_500 {
            let _ = pair.call(&limits, 1, false, 0).await;
            pair.pass(100);
            if call % 50 == 0 {
                for cost in [1, 3_000, 4_000] {
                    let _ = pair.peek(&limits, cost).await;
                }
            }
        }
        for one in admitted {
            let _ = pair.refund(&limits, one).await;
        }
        let _ = pair.peek(&limits, 4_000).await;
    }
}

// Random runs.

#[derive(Debug, Clone)]
enum Phase {
    Calls { count: usize, apart: u64, reserve: bool },
    Refund { from: usize, every: usize, count: usize },
    Commit { from: usize, every: usize, count: usize },
    Pass { part: u64 },
    Peek { cost: u64 },
}

fn phases() -> impl Strategy<Value = Vec<Phase>> {
    let some = || (0_usize..6_000, prop_oneof![Just(1_usize), Just(2_usize), 2_usize..9], 1_usize..3_000);
    let phase = prop_oneof![
        6 => (prop_oneof![1_usize..20, 300_usize..1_500], 0_u64..20_000, prop::bool::weighted(0.2))
            .prop_map(|(count, apart, reserve)| Phase::Calls { count, apart, reserve }),
        3 => some().prop_map(|(from, every, count)| Phase::Refund { from, every, count }),
        1 => some().prop_map(|(from, every, count)| Phase::Commit { from, every, count }),
        3 => (1_u64..300).prop_map(|part| Phase::Pass { part }),
        2 => (1_u64..4_000).prop_map(|cost| Phase::Peek { cost }),
    ];
    prop::collection::vec(phase, 4..24)
}

async fn play(server: &RedisServer, second: Option<u64>, phases: &[Phase]) {
    let mut pair = Pair::on(server).await;
    let mut limits = vec![per(5_000, MINUTE)];
    limits.extend(second.map(|window| per(4_000, window)));
    let mut admitted: Vec<Admitted> = Vec::new();
    for phase in phases {
        match *phase {
            Phase::Calls { count, apart, reserve } => {
                for _ in 0..count {
                    let (verdict, this) = pair.call(&limits, 1, reserve, 0).await;
                    admitted.extend(this);
                    pair.pass(apart);
                    if !verdict.allowed {
                        break;
                    }
                }
            }
            Phase::Refund { from, every, count } if !admitted.is_empty() => {
                for one in admitted.iter().skip(from % admitted.len()).step_by(every).take(count) {
                    let _ = pair.refund(&limits, *one).await;
                }
            }
            Phase::Commit { from, every, count } if !admitted.is_empty() => {
                for one in admitted.iter().skip(from % admitted.len()).step_by(every).take(count).filter(|one| one.held)
                {
                    let _ = pair.commit(&limits, *one).await;
                }
            }
            Phase::Refund { .. } | Phase::Commit { .. } => {}
            Phase::Pass { part } => pair.pass(MINUTE / 1000 * part),
            Phase::Peek { cost } => drop(pair.peek(&limits, cost).await),
        }
    }
    for cost in [1, 100, 4_000] {
        let _ = pair.peek(&limits, cost).await;
    }
}

#[test]
fn long_rings_are_as_in_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = RedisServer::start();
    let cases = std::env::var("RATELIMIT_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let second = prop_oneof![Just(None), (MINUTE / 10..MINUTE).prop_map(Some)];
    let watch = Watch::on(&server);
    let result = runner.run(&(second, phases()), |(second, phases)| {
        runtime.block_on(play(&server, second, &phases));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let _ = watch.bounded(&server);
}

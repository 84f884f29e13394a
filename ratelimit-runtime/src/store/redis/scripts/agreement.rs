//! Each script says what its algorithm says in memory: random steps are played on both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod stacks;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redis::Value;

use super::call::{self, Asked};
use super::{Operation, Question, Script, ScriptAnswer};
use crate::rule::{Algorithm, Limit};
use crate::store::memory::bucket::Bucket;
use crate::store::{Request, Settled, Verdict};

const START: u64 = 1_700_000_000_000_000;
pub(crate) const KEY: &[u8] = b"key";

/// A server of its own on a socket, which ends with this.
pub(crate) struct ScriptServer {
    process: Child,
    folder: PathBuf,
    connection: redis::Connection,
}

impl ScriptServer {
    pub(crate) fn start(name: &str) -> Self {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), SERVERS.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("ratelimit-{name}-{process}-{number}"));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("socket");
        let program = std::env::var("RATELIMIT_TEST_REDIS_BIN").unwrap_or_else(|_| "redis-server".into());
        let process = Command::new(program)
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server");
        let client = redis::Client::open(format!("unix://{}", socket.display())).unwrap();
        let began = Instant::now();
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(10), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Self { process, folder, connection }
    }

    pub(crate) fn load(&mut self, script: &Script) {
        script.load().exec(&mut self.connection).unwrap();
    }

    pub(crate) fn send(&mut self, command: &redis::Cmd) -> Value {
        use redis::ConnectionLike as _;
        self.connection.req_command(command).unwrap()
    }

    /// Asks one question, for so many callers; a lone one by a lone call or not.
    pub(crate) fn ask(&mut self, question: &Question, callers: u16, lone: bool) -> (u64, ScriptAnswer) {
        if lone && callers == 1 {
            let reply = self.send(&call::lone_command(7, KEY, question));
            return call::read_lone(&reply, 7, question).unwrap_or_else(|_| panic!("{question:?}: {reply:?}"));
        }
        let asked = [Asked { question, asks: &[(1, callers)] }];
        let command = call::command(7, question.script, std::iter::once(KEY), &asked);
        let reply = self.send(&command);
        let (now, answers) = call::read(&reply, 7, &asked).unwrap_or_else(|_| panic!("{question:?}: {reply:?}"));
        (now, answers[0].clone().unwrap_or_else(|error| panic!("{question:?}: {error:?}")))
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.below(all.len() as u64);
        &all[usize::try_from(index).unwrap()]
    }
}

/// One admission that may be refunded or settled.
#[derive(Clone, Copy, Debug)]
struct Admitted<'a> {
    request: Request<'a>,
    ticket: u64,
}

/// Asserts that the script tells a caller what the memory store does. Of several who ask together,
/// under several limits, the script may say less of what remains.
fn assert_same(
    verdict: &Verdict,
    expected: &Verdict,
    is_alone: bool,
    has_one_limit: bool,
    context: impl Fn() -> String,
) {
    let told = |verdict: &Verdict| (verdict.allowed, verdict.ticket, verdict.retry_after_us);
    assert_eq!(told(verdict), told(expected), "{}", context());
    assert!(verdict.remaining <= expected.remaining, "{}", context());
    if has_one_limit {
        assert_eq!(verdict.remaining, expected.remaining, "{}", context());
    }
    if is_alone {
        assert_eq!(verdict, expected, "{}", context());
    }
}

/// Settles a reservation or refunds a charge. Says what the script and the memory store tell.
fn give_back(
    server: &mut ScriptServer,
    memory: &mut Bucket,
    random: &mut Xorshift,
    &Admitted { request, ticket }: &Admitted<'_>,
    most: u64,
    now: u64,
) -> (Settled, Settled) {
    if !request.is_reservation() {
        let question = Question::new(Operation::Refund(ticket), &request, Some(now));
        let (_, answer) = server.ask(&question, 1, random.one_in(2));
        let settled = |was_there| Settled::new(was_there, 0);
        return (settled(answer.admitted > 0), settled(memory.refund(&request, ticket, now)));
    }
    let actual = [0, request.cost(), request.cost() / 2, request.cost() + 3, 3 * most];
    let actual = *random.of(&actual).min(&Limit::MAX_COUNT);
    let request = if random.one_in(6) { request.sent_again() } else { request };
    let question = Question::new(Operation::Settle(ticket, actual), &request, Some(now));
    let (_, answer) = server.ask(&question, 1, random.one_in(2));
    (answer.settled(), memory.settle(&request, ticket, actual, now))
}

/// Plays random steps of one rule on a script and in memory. `clock_steps_back` where both are to
/// agree on that, too.
fn play(
    server: &mut ScriptServer,
    algorithm: Algorithm,
    limits: &[Limit],
    seed: u64,
    steps: usize,
    clock_steps_back: bool,
) {
    let mut random = Xorshift(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let window = limits.iter().map(Limit::window_us).max().unwrap();
    let shortest = limits.iter().map(Limit::window_us).min().unwrap();
    let most = limits.iter().map(|limit| algorithm.capacity(limit)).min().unwrap();
    let mut now = START + random.below(1_000);
    let mut memory = Bucket::new(algorithm);
    let mut admitted: Vec<Admitted<'_>> = Vec::new();
    let (block, longest) = *random.of(&[(0, 0), (0, 0), (shortest / 2, 0), (shortest / 4, window * 2)]);
    let mut log = Vec::new();
    server.send(&redis::Cmd::del(KEY));
    for step in 0..steps {
        now += *random.of(&[0, 0, 1, 7, shortest / 50, shortest / 7, shortest / 3]);
        if random.one_in(20) {
            now += *random.of(&[shortest, shortest - 1, window, window + 1, 2 * window]);
        }
        if clock_steps_back && random.one_in(15) {
            now = START.max(now - random.below(window + window / 2));
        }
        // The caller's clock may step back to before the end of what the server's has ended.
        server.send(redis::cmd("PERSIST").arg(KEY));
        let block_of = |random: &mut Xorshift| if random.one_in(10) { (shortest / 3, 0) } else { (block, longest) };
        let (first, longest) = block_of(&mut random);
        let unit = (most / 40).max(1);
        let cost = if random.one_in(3) { 1 + random.below(most.min(40)) } else { 1 };
        let cost = if unit > 1_000 { most.min(cost * unit - random.below(unit)) } else { cost };
        let request = Request::new(KEY, algorithm, limits)
            .with_cost(cost)
            .with_growing_block(Duration::from_micros(first), Duration::from_micros(longest));
        let context = |log: &[String]| {
            let last = log.len().saturating_sub(12);
            format!("{algorithm} {limits:?} seed {seed} step {step} at {}\n{}", now - START, log[last..].join("\n"))
        };
        match random.below(20) {
            0..11 => {
                let request = match random.below(4) {
                    0 => request.reserving(),
                    1 => request.reserving_estimate(),
                    _ => request,
                };
                let callers = if random.one_in(3) { 1 + u16::try_from(random.below(6)).unwrap() } else { 1 };
                let question = Question::new(Operation::Acquire, &request, Some(now));
                let (at, answer) = server.ask(&question, callers, random.one_in(2));
                let expected: Vec<Verdict> = (0..callers).map(|_| memory.acquire(&request, now)).collect();
                log.push(format!("{} acquire {:?} x {callers} = {answer:?}", now - START, request.reserves()));
                for (index, expected) in expected.iter().enumerate() {
                    let verdict = answer.verdict(u16::try_from(index).unwrap(), &question, at);
                    assert_same(&verdict, expected, callers == 1, limits.len() == 1, || {
                        format!("caller {index} of cost {cost}: {expected:?}\n{}", context(&log))
                    });
                    if expected.allowed {
                        admitted.push(Admitted { request, ticket: expected.ticket });
                    }
                }
            }
            11 | 12 => {
                let question = Question::new(Operation::Peek, &request, Some(now));
                let (at, answer) = server.ask(&question, 1, random.one_in(2));
                let expected = memory.peek(&request, now);
                log.push(format!("{} peek = {answer:?}", now - START));
                assert_eq!(answer.verdict(0, &question, at), expected, "{}", context(&log));
            }
            13..18 if !admitted.is_empty() => {
                let index = usize::try_from(random.below(admitted.len() as u64)).unwrap();
                let ended = admitted[index];
                if random.one_in(2) {
                    admitted.swap_remove(index);
                }
                let (told, expected) = give_back(server, &mut memory, &mut random, &ended, most, now);
                log.push(format!("{} give back {ended:?} = {told:?}", now - START));
                assert_eq!(told, expected, "{}", context(&log));
            }
            18 => {
                if random.one_in(2) {
                    let duration = 1 + random.below(window);
                    let question = Question::new(Operation::Block(duration), &request, Some(now));
                    server.ask(&question, 1, random.one_in(2));
                    memory.block(&request, duration, now);
                    log.push(format!("{} block {duration}", now - START));
                } else {
                    let question = Question::new(Operation::Unblock, &request, Some(now));
                    let (_, answer) = server.ask(&question, 1, random.one_in(2));
                    log.push(format!("{} unblock", now - START));
                    assert_eq!(answer.admitted > 0, memory.unblock(now), "{}", context(&log));
                }
            }
            19 if random.one_in(4) => {
                log.push("reset".to_owned());
                server.send(&redis::Cmd::del(KEY));
                memory = Bucket::new(algorithm);
                // Tickets that were ahead of the clock are not given again.
                now += 1_000;
            }
            _ => {}
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// Plays admissions by a clock that goes to and fro, on a script and in memory: in any interval as
/// long as a window, each may admit `max` at most.
fn play_to_and_fro(server: &mut ScriptServer, algorithm: Algorithm, limits: &[Limit], seed: u64, steps: usize) {
    let mut random = Xorshift(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let window = limits.iter().map(Limit::window_us).max().unwrap();
    let most = limits.iter().map(Limit::max).min().unwrap();
    let (mut now, mut memory, mut units) = (START, Bucket::new(algorithm), [Vec::new(), Vec::new()]);
    server.send(&redis::Cmd::del(KEY));
    for _ in 0..steps {
        let longest = *random.of(&[2, 100, window / 50, window, 2 * window]);
        let step = random.below(longest);
        now = if random.one_in(3) { now - step.min(now - START) } else { now + step };
        let request = Request::new(KEY, algorithm, limits).with_cost(1 + random.below(most.min(4)));
        let request = if random.one_in(4) { request.reserving() } else { request };
        let question = Question::new(Operation::Acquire, &request, Some(now));
        let (at, answer) = server.ask(&question, 1, true);
        for (units, verdict) in units.iter_mut().zip([answer.verdict(0, &question, at), memory.acquire(&request, now)])
        {
            if verdict.allowed {
                units.extend(verdict.ticket..verdict.ticket + request.cost());
            }
        }
    }
    for units in units {
        for limit in limits {
            let max = usize::try_from(limit.max()).unwrap();
            let too_close = units.windows(max + 1).find(|units| units[max] < units[0] + limit.window_us());
            assert!(units.is_sorted() && too_close.is_none(), "{limits:?} seed {seed}: {too_close:?}");
        }
    }
}

fn with_rules(name: &str, algorithm: Algorithm, runs: u64, mut play: impl FnMut(&mut ScriptServer, &[Limit], u64)) {
    let mut server = ScriptServer::start(name);
    server.load(Script::of(algorithm));
    let burst = |limit: Limit, burst| if algorithm.has_burst() { limit.with_burst(burst) } else { limit };
    let rules: [&[Limit]; 9] = [
        &[Limit::new(3, MINUTE)],
        &[Limit::new(10, MINUTE)],
        &[burst(Limit::new(7, MINUTE), 20)],
        &[Limit::new(4, MINUTE), Limit::new(12, MINUTE * 10)],
        &[Limit::new(100, MINUTE * 7), burst(Limit::new(40, MINUTE), 9)],
        &[Limit::new(1, MINUTE / 40), Limit::new(5, MINUTE), Limit::new(30, MINUTE * 60)],
        // Too large for a bucket to count in microseconds.
        &[Limit::new(3_000_000_000, MINUTE * 60)],
        &[Limit::new(u64::MAX, MINUTE / 1_000)],
        &[Limit::new(70_000_001, MINUTE * 60), Limit::new(1_234_567, MINUTE)],
    ];
    let rules = if algorithm.row().is_log { &rules[..6] } else { &rules[..] };
    for run in 0..runs {
        play(&mut server, rules[usize::try_from(run).unwrap() % rules.len()], run + 1);
    }
}

fn agrees(algorithm: Algorithm, runs: u64, clock_steps_back: bool) {
    with_rules(&format!("{algorithm}-{clock_steps_back}"), algorithm, runs, |server, limits, seed| {
        if clock_steps_back && algorithm.row().is_log {
            play_to_and_fro(server, algorithm, limits, seed, 150);
        } else {
            play(server, algorithm, limits, seed, 150, clock_steps_back);
        }
    });
}

#[cfg(feature = "calendar")]
#[test]
fn the_script_of_fixed_windows_decides_by_the_calendar_as_memory_does() {
    use crate::CalendarUnit::{Day, Hour, Month, Week, Year};

    let mut server = ScriptServer::start("calendar");
    server.load(Script::of(Algorithm::FixedWindow));
    let rules: [&[Limit]; 5] = [
        &[Limit::calendar(3, Hour)],
        &[Limit::calendar(10, Day), Limit::calendar(20, Week)],
        &[Limit::new(4, MINUTE * 60), Limit::calendar(9, Day)],
        &[Limit::calendar(5, Hour), Limit::new(7, MINUTE * 90), Limit::calendar(30, Month)],
        &[Limit::calendar(100, Year)],
    ];
    for run in 0..2 * runs() {
        let limits = rules[usize::try_from(run / 2).unwrap() % rules.len()];
        play(&mut server, Algorithm::FixedWindow, limits, run + 1, 150, run % 2 == 1);
    }
}

/// How many random runs each test plays: `RATELIMIT_AGREEMENT_RUNS`, or this many.
fn runs() -> u64 {
    std::env::var("RATELIMIT_AGREEMENT_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(60)
}

macro_rules! agreement {
    ($($(#[$attribute:meta])* $variant:ident $module:ident $state:tt $row:tt)*) => {
        $(mod $module {
            use super::*;

            #[test]
            fn the_script_decides_as_memory_does() {
                agrees(Algorithm::$variant, runs(), false);
            }

            #[test]
            fn the_script_decides_as_memory_does_when_the_clock_steps_back() {
                agrees(Algorithm::$variant, runs(), true);
            }
        })*
    };
}

crate::__algorithms!(agreement);

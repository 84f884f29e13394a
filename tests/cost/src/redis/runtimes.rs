//! [`Spread`]: what decisions cost where their callers are spread over many runtimes, as actix
//! does it, each of which has a connection of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Limit, RateLimiter, RedisStore, Rule};
use redis::Connection;

use super::decisions::{call, limiter};
use super::server::{CountedServer, Server};

/// Distinct keys; each is asked for once before anything is measured.
const KEYS: u64 = 8_192;
/// Decisions that are timed, and that are counted, which takes a hundred times as long.
const TIMED: u64 = 8 * KEYS;
const COUNTED: u64 = KEYS;
const ROUNDS: usize = 5;

/// Over how many current-thread runtimes callers are spread, and how many keys they ask for.
#[derive(Debug, Clone, Copy)]
struct Shape {
    callers: u64,
    runtimes: u64,
    keys: u64,
}

const SHAPES: [Shape; 8] = [
    Shape { callers: 512, runtimes: 1, keys: KEYS },
    Shape { callers: 512, runtimes: 16, keys: KEYS },
    Shape { callers: 512, runtimes: 1, keys: 1 },
    Shape { callers: 512, runtimes: 16, keys: 1 },
    Shape { callers: 64, runtimes: 1, keys: KEYS },
    Shape { callers: 64, runtimes: 16, keys: KEYS },
    Shape { callers: 64, runtimes: 1, keys: 1 },
    Shape { callers: 64, runtimes: 16, keys: 1 },
];

impl Shape {
    /// Enough for all calls.
    fn rule(self) -> Rule {
        match self.keys {
            1 => Rule::new("hot", Limit::per_hour(100_000_000)),
            _ => Rule::new("distinct", Limit::per_hour(100)),
        }
    }

    fn name(self) -> String {
        let Self { callers, runtimes, keys } = self;
        let keys = if keys == 1 { "one key" } else { "distinct keys" };
        format!("{runtimes} x {} callers, {keys}", callers / runtimes)
    }
}

/// Runtimes with their callers, connected and warm. They wait to be told, and end when dropped.
struct Runtimes(Vec<RuntimeThread>);

/// Makes as many decisions as it is told, and says how many calls were admitted. Where it panics,
/// both channels end.
struct RuntimeThread {
    decisions: Sender<u64>,
    admitted: Receiver<u64>,
    handle: JoinHandle<()>,
}

impl Runtimes {
    fn start(url: &str, shape: Shape) -> Self {
        let limiter = limiter(RedisStore::new(url).unwrap(), None);
        let threads = (0..shape.runtimes).map(|runtime| {
            let ((decisions, told), (says, admitted)) = (channel(), channel());
            let limiter = limiter.clone();
            let handle = thread::spawn(move || run(&limiter, shape, runtime, &told, &says));
            RuntimeThread { decisions, admitted, handle }
        });
        let runtimes = Self(threads.collect());
        runtimes.decide(KEYS);
        runtimes
    }

    /// Has all callers together make so many decisions; says how long they took.
    ///
    /// # Panics
    ///
    /// If a call is refused.
    fn decide(&self, decisions: u64) -> Duration {
        let began = Instant::now();
        for thread in &self.0 {
            thread.decisions.send(decisions).unwrap();
        }
        let admitted: u64 = self.0.iter().map(|thread| thread.admitted.recv().unwrap()).sum();
        assert_eq!(admitted, decisions);
        began.elapsed()
    }

    /// Closes all connections.
    fn end(self) {
        for RuntimeThread { decisions, admitted: _, handle } in self.0 {
            drop(decisions);
            handle.join().unwrap();
        }
    }
}

fn run(limiter: &RateLimiter, shape: Shape, runtime: u64, told: &Receiver<u64>, says: &Sender<u64>) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rule = Arc::new(shape.rule());
    let callers = shape.callers / shape.runtimes;
    let callers = runtime * callers..(runtime + 1) * callers;
    tokio.block_on(limiter.ready()).unwrap();
    while let Ok(decisions) = told.recv() {
        let admitted = tokio.block_on(async {
            let numbers = |caller| (caller..decisions).step_by(usize::try_from(shape.callers).unwrap());
            let users = |caller| numbers(caller).map(move |number| number % shape.keys);
            let callers = callers.clone().map(|caller| call(limiter.clone(), Arc::clone(&rule), users(caller)));
            let callers: Vec<_> = callers.map(tokio::spawn).collect();
            let mut admitted = 0;
            for caller in callers {
                admitted += caller.await.unwrap();
            }
            admitted
        });
        says.send(admitted).unwrap();
    }
}

/// What a decision costs in each of the shapes.
#[derive(Debug)]
pub struct Spread([(Shape, Cost); SHAPES.len()]);

#[derive(Debug)]
struct Cost {
    /// Commands that were sent, per decision, and decisions per second: medians.
    calls: f64,
    per_second: f64,
    /// Instructions of the server per decision.
    instructions: u64,
}

impl Spread {
    /// # Panics
    ///
    /// If there is no redis-server or no valgrind, or if a call is refused.
    #[must_use]
    pub fn measure() -> Self {
        let mut runs = SHAPES.map(|shape| (shape, Vec::new(), Vec::new()));
        let server = Server::start();
        let mut control = server.connect();
        for _ in 0..ROUNDS {
            for (shape, calls, rates) in &mut runs {
                redis::cmd("FLUSHALL").arg("SYNC").exec(&mut control).unwrap();
                let runtimes = Runtimes::start(&server.url(), *shape);
                redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut control).unwrap();
                let took = runtimes.decide(TIMED);
                calls.push(to_f64(scripts_called(&mut control)) / to_f64(TIMED));
                rates.push(to_f64(TIMED) / took.as_secs_f64());
                runtimes.end();
            }
        }
        let mut counted = CountedServer::start();
        Self(runs.map(|(shape, calls, rates)| {
            counted.empty();
            let runtimes = Runtimes::start(&counted.url(), shape);
            let instructions = counted.instructions(|| _ = runtimes.decide(COUNTED)) / COUNTED;
            runtimes.end();
            (shape, Cost { calls: median(calls), per_second: median(rates), instructions })
        }))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, calls, instructions, per_second] =
            ["current-thread runtimes", "Redis calls each", "server instructions each", "decisions/s"];
        write!(f, "{name:<32} {calls:>16} {instructions:>24} {per_second:>11}")?;
        self.0.iter().try_for_each(|(shape, Cost { calls, instructions, per_second })| {
            write!(f, "\n{:<32} {calls:>16.4} {instructions:>24} {per_second:>11.0}", shape.name())
        })
    }
}

fn scripts_called(control: &mut Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(control).unwrap();
    let calls = |name: &str| {
        let fields = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":calls="));
        fields.map_or(0, |fields| fields.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    calls("cmdstat_eval") + calls("cmdstat_evalsha")
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

#[allow(clippy::cast_precision_loss, reason = "some hundred thousand")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

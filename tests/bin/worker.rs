//! A process that uses a limiter, for tests that need several, or one that is killed. Prints what
//! it was admitted.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper; its output is its answer"
)]

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::{PermitId, PermitRequest};
use ratelimit_runtime::{
    Algorithm, Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RedisMode, RedisStore, Rule,
    Source,
};
use tokio::task::JoinSet;

use crate::random::Random;

#[allow(dead_code, reason = "every test program uses another part")]
#[path = "../support/random.rs"]
mod random;

const USAGE: &str = "worker hammer URL PREFIX TASKS MAX ALGORITHM \
                     | live URL PREFIX local|allow|deny TASKS MAX WINDOW_MS \
                     | trace URL local|allow|deny | hold URL KEY CALLS MAX \
                     | spend URL PREFIX ALGORITHM MAX WINDOW_MS BURST LEASE_MS steady|bursts \
                       GAP_NS COSTS LENGTH_MS SEED";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().unwrap();
    match args.as_slice() {
        ["hammer", url, prefix, tasks, max, algorithm] => {
            let rule = Rule::new("hammer", Limit::per_hour(number(max)))
                .with_algorithm(algorithm.parse().unwrap());
            hammer(strict(url, prefix), number(tasks), rule).await;
        }
        ["live", url, prefix, policy, tasks, max, window] => {
            let builder = RateLimiter::builder()
                .redis(url)
                .prefix(*prefix)
                .on_unavailable(policy_of(policy));
            let limit = Limit::new(number(max), Duration::from_millis(number(window)));
            live(builder.build().unwrap(), number(tasks), limit).await;
        }
        ["trace", url, policy] => {
            let builder = RateLimiter::builder()
                .redis(url)
                .on_unavailable(policy_of(policy));
            trace(builder.build().unwrap()).await;
        }
        ["hold", url, key, calls, max] => hold(url, key, number(calls), number(max)).await,
        [
            "spend",
            url,
            prefix,
            algorithm,
            max,
            window,
            burst,
            lease,
            arrivals,
            gap,
            costs,
            length,
            seed,
        ] => {
            let millis = |text| Duration::from_millis(number(text));
            let algorithm: Algorithm = algorithm.parse().unwrap();
            let mut limit = Limit::new(number(max), millis(window));
            if algorithm.has_burst() {
                limit = limit.with_burst(number(burst));
            }
            let rule = Rule::new("spend", limit)
                .with_algorithm(algorithm)
                .with_prefetch(millis(lease));
            let builder = RateLimiter::builder()
                .redis(url)
                .prefix(*prefix)
                .timeout(Duration::from_secs(2))
                .on_unavailable(OnUnavailable::Deny);
            let calls = Calls {
                in_bursts: *arrivals == "bursts",
                gap: Duration::from_nanos(number(gap)),
                costs: number(costs),
                length: millis(length),
                linger: millis(lease) + Duration::from_millis(500),
            };
            spend(builder.build().unwrap(), rule, calls, number(seed)).await;
        }
        _ => panic!("{USAGE}"),
    }
}

/// Prints its name among permits, and acquires so many that it never releases. Prints `lost` once
/// one is lost. It ends by being killed.
async fn hold(url: &str, key: &str, calls: u64, max: u64) {
    /// Listens to nothing but that.
    struct Lost;

    impl tracing::Subscriber for Lost {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.name() == "permit_lost"
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            println!("lost");
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    tracing::subscriber::set_global_default(Lost).unwrap();
    println!("{:016x}", PermitId::next().process);
    let store = RedisStore::new(url).unwrap();
    for _ in 0..calls {
        loop {
            let permit = PermitRequest {
                lease: PermitRequest::MIN_LEASE,
                ..PermitRequest::new(key.as_bytes(), max)
            };
            if store
                .acquire_all(Some(permit), &[])
                .await
                .is_ok_and(|verdict| verdict.is_acquired())
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    std::future::pending::<()>().await;
}

fn policy_of(text: &str) -> OnUnavailable {
    match text {
        "local" => OnUnavailable::Local,
        "allow" => OnUnavailable::Allow,
        "deny" => OnUnavailable::Deny,
        _ => panic!("{USAGE}"),
    }
}

/// A limiter that admits nothing by itself. It uses no scripts where the URL begins with `plain+`.
fn strict(url: &str, prefix: &str) -> RateLimiter {
    let builder = RateLimiter::builder()
        .prefix(prefix)
        .timeout(Duration::from_secs(30));
    let builder = builder.on_unavailable(OnUnavailable::Deny);
    let builder = match url.strip_prefix("plain+") {
        Some(url) => builder.store(RedisStore::new(url).unwrap().mode(RedisMode::Transactions)),
        None => builder.redis(url),
    };
    builder.build().unwrap()
}

async fn admits(limiter: &RateLimiter, rule: &Rule, key: &Key) -> bool {
    match limiter.acquire(rule, key).await {
        Ok(_) => true,
        Err(RateLimitError::Exceeded(_)) => false,
        Err(error) => panic!("no decision: {error:?}"),
    }
}

/// Calls without end, on one shared key and on ever new ones, and prints a dot for every admission
/// on the shared one. It ends by being killed.
async fn hammer(limiter: RateLimiter, tasks: u64, rule: Rule) {
    let rule = Arc::new(rule);
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        running.spawn(async move {
            for call in 0_u64.. {
                if admits(&limiter, &rule, &Key::of("shared")).await {
                    let mut out = std::io::stdout();
                    out.write_all(b".").unwrap();
                    out.flush().unwrap();
                }
                let own = Key::of(&(std::process::id(), task, call % 64));
                admits(&limiter, &rule, &own).await;
            }
        });
    }
    running.join_all().await;
}

/// Says `ready`, and calls on one shared key until its standard input ends. Prints for every
/// admission when it was asked for and when it was given, in microseconds of this machine's clock,
/// and by whom.
async fn live(limiter: RateLimiter, tasks: u64, limit: Limit) {
    limiter.ready().await.unwrap();
    println!("ready");
    let over = Arc::new(AtomicBool::new(false));
    let (seen, rule) = (Arc::clone(&over), Arc::new(Rule::new("live", limit)));
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        seen.store(true, Ordering::Relaxed);
    });
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (limiter, rule, over) = (limiter.clone(), Arc::clone(&rule), Arc::clone(&over));
        running.spawn(async move {
            let mut lines = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let sent = moment();
                if let Ok(decision) = limiter.acquire(&rule, &Key::of("shared")).await {
                    let source = match decision.source() {
                        Source::Store => "store",
                        Source::Fallback => "fallback",
                        Source::Nobody => "nobody",
                        other => panic!("{other:?} admits nothing"),
                    };
                    writeln!(lines, "{sent} {} {source}", moment()).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5 + task)).await;
            }
            lines
        });
    }
    std::io::stdout()
        .write_all(&running.join_all().await.concat())
        .unwrap();
}

/// When a process calls, and at what cost.
#[derive(Clone, Copy)]
struct Calls {
    /// For 0.3 s at three times the rate, then for 0.6 s not at all, as all processes at once.
    in_bursts: bool,
    /// The mean time between two calls.
    gap: Duration,
    /// A call costs 1 to so many units.
    costs: u64,
    /// How long the process calls, and how long it goes on after that.
    length: Duration,
    linger: Duration,
}

/// Says `ready`, and calls on one shared key once its standard input ends, each call by a task of
/// its own. Prints for every admission when it was asked for and when it was given, in nanoseconds
/// of the machine's monotonic clock, its cost, and by whom; and, at the end, how many calls there
/// were. It goes on for long enough then that a lease ends by itself.
async fn spend(limiter: RateLimiter, rule: Rule, calls: Calls, seed: u64) {
    limiter.ready().await.unwrap();
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()).unwrap())
        .await
        .unwrap();
    let mut random = Random::new(seed);
    let (start, began) = (tokio::time::Instant::now(), machine_ns());
    let (mut running, mut at) = (JoinSet::new(), 0.0);
    loop {
        at = calls.next(at, began, &mut random);
        let rule = rule.with_cost(1 + random.below(calls.costs));
        if at > calls.length.as_secs_f64() {
            break;
        }
        // What should have been called while the process stood still is called at once.
        tokio::time::sleep_until(start + Duration::from_secs_f64(at)).await;
        let limiter = limiter.clone();
        running.spawn(async move {
            let before = machine_ns();
            let answer = limiter.acquire(&rule, &Key::of("shared")).await;
            let after = machine_ns();
            let source = match answer {
                Ok(decision) => match decision.source() {
                    Source::Grant => "grant",
                    Source::Store => "store",
                    other => panic!("{other:?} admits nothing"),
                },
                Err(RateLimitError::Exceeded(_)) => return true,
                Err(RateLimitError::Unavailable(_)) => return false,
                Err(error) => panic!("{error:?}"),
            };
            println!("{before} {after} {} {source}", rule.cost());
            true
        });
    }
    let answered = running.join_all().await;
    let failed = answered.iter().filter(|answered| !**answered).count();
    println!("calls {} failed {failed}", answered.len());
    tokio::time::sleep(calls.linger).await;
}

impl Calls {
    /// When the next call comes after the one at this time, in seconds since the process began: at
    /// random.
    fn next(&self, at: f64, began: u64, random: &mut Random) -> f64 {
        const ON: f64 = 0.3;
        const PERIOD: f64 = 0.9;
        // A random number above 0, up to 1.
        let random = Duration::from_nanos(random.below(1_000_000_000) + 1).as_secs_f64();
        let gap = -random.ln() * self.gap.as_secs_f64();
        if !self.in_bursts {
            return at + gap;
        }
        let next = at + gap / 3.0;
        let phase = (Duration::from_nanos(began).as_secs_f64() + next) % PERIOD;
        if phase < ON {
            next
        } else {
            next + PERIOD - phase
        }
    }
}

/// The clock that all processes of the machine share, in nanoseconds.
fn machine_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(Duration::try_from(now).unwrap().as_nanos()).unwrap()
}

/// Calls until its standard input ends, and prints for each call how long it took, in microseconds,
/// and who answered.
async fn trace(limiter: RateLimiter) {
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        seen.store(true, Ordering::Relaxed);
    });
    let rule = Rule::new("trace", Limit::per_hour(1_000_000));
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        let outcome = limiter.acquire(&rule, &Key::global()).await;
        let took = start.elapsed().as_micros();
        match outcome {
            Ok(decision) => println!("{took} {:?}", decision.source()),
            Err(RateLimitError::Unavailable(_)) => println!("{took} Unavailable"),
            Err(error) => panic!("{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// By the clock that all processes of the machine share, and by the one that servers go by, which
/// may be set, in nanoseconds.
fn moment() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!("{} {}", machine_ns(), since.unwrap().as_nanos())
}

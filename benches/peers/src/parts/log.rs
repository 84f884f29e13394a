//! [`Log`]: one log from empty to full and back, call by call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::{Decision, Key, Limit, OnUnavailable, RateLimiter, RedisStore, Rule, key};
use tokio::task::JoinSet;

use crate::Failure;
use crate::peer::{Kind, Peer};
use crate::server::{Server, Slow};

/// A call that keeps the server longer than this keeps all clients waiting. In microseconds.
pub const LONG: u32 = 250;

/// How many calls stand for a full log, how many for one that has changed at once, and how many for
/// refusals.
const STEADY: u32 = 1_000;
const AFTER: u32 = 50;
const REFUSALS: u32 = 20;

/// So many refunds go on at once.
const REFUNDERS: usize = 64;

/// One log of this crate.
pub struct Log {
    /// The server's microseconds per decision while it fills; when it is full, and each call makes
    /// one entry leave; and per refusal.
    pub filling: f64,
    pub full: f64,
    pub refused: f64,
    /// Bytes per entry, the key and all.
    pub bytes: f64,
    pub slow_filling: Slow,
    /// When all entries but the newest have expired at once.
    pub slow_emptying: Slow,
    /// While half of the entries are refunded one by one, and afterwards.
    pub slow_refunded: Slow,
}

impl Log {
    pub async fn measure(server: &Server, max: u32) -> Result<Self, Failure> {
        let clock = SteppingClock::default();
        let limiter = limiter(server, &clock)?;
        limiter.ready().await?;
        let rule = Rule::named("log", Limit::new(max.into(), STEP * max));
        // Loads the script.
        let _ = limiter.acquire(&rule, &key!("another")).await?;
        server.empty()?;

        let mut entries = VecDeque::new();
        watch(server)?;
        admit(&limiter, &rule, &clock, max, &mut entries).await?;
        let (filling, slow_filling) = seen(server, max)?;
        let bytes = server.bytes_of_the_key()? as f64 / f64::from(max);

        watch(server)?;
        admit(&limiter, &rule, &clock, STEADY, &mut entries).await?;
        let (full, _) = seen(server, STEADY)?;

        watch(server)?;
        for _ in 0..REFUSALS {
            if limiter.acquire(&rule, &Key::global()).await.is_ok() {
                return Err("admitted into a full log".into());
            }
        }
        let (refused, _) = seen(server, REFUSALS)?;

        watch(server)?;
        let oldest = entries.len().saturating_sub(max as usize);
        refund_every_second(&limiter, &rule, entries.split_off(oldest)).await?;
        admit(&limiter, &rule, &clock, AFTER, &mut entries).await?;
        let (_, slow_refunded) = seen(server, AFTER)?;

        clock.step(max - 1);
        watch(server)?;
        admit(&limiter, &rule, &clock, AFTER, &mut entries).await?;
        let (_, slow_emptying) = seen(server, AFTER)?;
        Ok(Self {
            filling,
            full,
            refused,
            bytes,
            slow_filling,
            slow_emptying,
            slow_refunded,
        })
    }
}

fn limiter(server: &Server, clock: &SteppingClock) -> Result<RateLimiter, Failure> {
    let store = RedisStore::new(&server.url())?
        .with_clock(clock.clone())
        .deny_cache(false);
    Ok(RateLimiter::builder()
        .store(store)
        .on_unavailable(OnUnavailable::Deny)
        .timeout(Duration::from_secs(5))
        .build()?)
}

async fn admit(
    limiter: &RateLimiter,
    rule: &Rule,
    clock: &SteppingClock,
    calls: u32,
    entries: &mut VecDeque<Decision>,
) -> Result<(), Failure> {
    for _ in 0..calls {
        clock.step(1);
        entries.push_back(limiter.acquire(rule, &Key::global()).await?);
    }
    Ok(())
}

async fn refund_every_second(
    limiter: &RateLimiter,
    rule: &Rule,
    entries: VecDeque<Decision>,
) -> Result<(), Failure> {
    let entries: Arc<Vec<Decision>> = Arc::new(entries.into_iter().step_by(2).collect());
    let mut refunders = JoinSet::new();
    for first in 0..REFUNDERS {
        let (limiter, rule, entries) = (limiter.clone(), rule.clone(), Arc::clone(&entries));
        refunders.spawn(async move {
            for entry in entries.iter().skip(first).step_by(REFUNDERS) {
                limiter.refund(&rule, &Key::global(), entry).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    refunders.join_all().await.into_iter().collect()
}

/// One log of the articles.
pub struct ArticleLog {
    pub filling: f64,
    pub refused: f64,
    pub bytes: f64,
}

impl ArticleLog {
    pub async fn measure(server: &Server, max: u32) -> Result<Self, Failure> {
        server.empty()?;
        let peer = Peer::open(Kind::ArticleZset, server, max).await?;
        watch(server)?;
        for _ in 0..max {
            peer.admits("user").await?;
        }
        let (filling, _) = seen(server, max)?;
        let bytes = server.bytes_of_the_key()? as f64 / f64::from(max);
        watch(server)?;
        for _ in 0..STEADY {
            peer.admits("user").await?;
        }
        let (refused, _) = seen(server, STEADY)?;
        Ok(Self {
            filling,
            refused,
            bytes,
        })
    }
}

fn watch(server: &Server) -> Result<(), Failure> {
    server.count_anew()?;
    server.watch_slow(LONG)
}

/// The server's microseconds per call since [`watch`], and the calls that took long.
fn seen(server: &Server, calls: u32) -> Result<(f64, Slow), Failure> {
    Ok((
        server.work()?.microseconds as f64 / f64::from(calls),
        server.slow()?,
    ))
}

/// How far the clock goes before each call: so a full log loses one entry per call.
const STEP: Duration = Duration::from_secs(1);

/// Stands still between steps.
#[derive(Clone, Default)]
struct SteppingClock(Arc<AtomicU32>);

impl SteppingClock {
    fn step(&self, steps: u32) {
        self.0.fetch_add(steps, Ordering::SeqCst);
    }
}

impl Clock for SteppingClock {
    fn now(&self) -> Duration {
        Duration::from_secs(1_800_000_000) + STEP * self.0.load(Ordering::SeqCst)
    }
}

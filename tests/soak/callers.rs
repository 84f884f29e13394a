//! Callers who never stop: three limiters, one for each policy, with hot keys that share a limit,
//! and new keys all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, Rule};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::promises::Promises;
use crate::support::random::Random;
use crate::support::unique;

pub(crate) const TIMEOUT: Duration = Duration::from_millis(100);
pub(crate) const LIMIT: Limit = Limit::new(20, Duration::from_secs(1));
pub(crate) const POLICIES: [OnUnavailable; 3] = [OnUnavailable::Local, OnUnavailable::Allow, OnUnavailable::Deny];
/// Hot keys of each policy, on all masters.
pub(crate) const HOT: usize = 6;
/// Further hot keys of each policy, whose calls reserve what they may cost and say later what they
/// did cost.
pub(crate) const RESERVED: usize = 3;
/// Callers of each hot key, and of new keys for each policy.
const CALLERS: usize = 4;
/// The store is back when it alone has answered for so long.
const STEADY: Duration = Duration::from_millis(500);

/// What becomes of a reservation.
#[derive(Clone, Copy)]
enum Ends {
    Committed,
    Released,
    Dropped,
}

impl Ends {
    fn any(random: &mut Random) -> Self {
        match random.below(10) {
            0 => Self::Released,
            1 => Self::Dropped,
            _ => Self::Committed,
        }
    }
}

pub(crate) struct Callers {
    running: JoinSet<()>,
    stopped: Arc<AtomicBool>,
    promises: Promises,
    prefixes: Vec<String>,
}

impl Callers {
    pub(crate) async fn start(url: &str, promises: &Promises, mut random: Random) -> Self {
        let mut callers =
            Self { running: JoinSet::new(), stopped: Arc::default(), promises: promises.clone(), prefixes: Vec::new() };
        for (lane, policy) in POLICIES.into_iter().enumerate() {
            let prefix = unique("soak");
            let limiter = RateLimiter::builder().prefix(prefix.as_str()).timeout(TIMEOUT).on_unavailable(policy);
            let limiter = limiter.redis(url).build().unwrap();
            timeout(Duration::from_secs(10), limiter.ready()).await.expect("the cluster serves").unwrap();
            callers.prefixes.push(prefix);
            for hot in 0..HOT {
                for _ in 0..CALLERS {
                    callers.call(limiter.clone(), lane, Some(hot), random.fork());
                }
            }
            for hot in HOT..HOT + RESERVED {
                for _ in 0..CALLERS {
                    callers.reserve(limiter.clone(), lane, hot, random.fork());
                }
            }
            for _ in 0..CALLERS {
                callers.call(limiter.clone(), lane, None, random.fork());
            }
        }
        callers.beat();
        callers
    }

    fn call(&mut self, limiter: RateLimiter, lane: usize, hot: Option<usize>, mut random: Random) {
        let (stopped, promises) = (Arc::clone(&self.stopped), self.promises.clone());
        self.running.spawn(async move {
            let rule = Rule::new("soak", LIMIT);
            let mut own = random.number();
            while !stopped.load(Ordering::Relaxed) {
                own = own.wrapping_add(1);
                let key = hot.map_or_else(|| Key::of(&(lane, own)), |hot| Key::of(&hot));
                let sent = Instant::now();
                // Some give up.
                let outcome = if random.below(50) == 0 {
                    timeout(Duration::from_millis(random.below(5)), limiter.acquire(&rule, &key)).await.ok()
                } else {
                    Some(limiter.acquire(&rule, &key).await)
                };
                if let Some(outcome) = outcome {
                    promises.call(lane, hot.map(|hot| (hot, 1)), sent, &outcome);
                }
                sleep(Duration::from_millis(5 + random.below(30))).await;
            }
        });
    }

    /// Calls whose cost is known afterwards: some cost less than they have reserved, some more,
    /// some nothing, and some are dropped.
    fn reserve(&mut self, limiter: RateLimiter, lane: usize, hot: usize, mut random: Random) {
        let (stopped, promises) = (Arc::clone(&self.stopped), self.promises.clone());
        self.running.spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let (estimate, actual) = (1 + random.below(4), random.below(8));
                let ends = Ends::any(&mut random);
                let rule = Rule::new("soak", LIMIT).with_cost(estimate);
                let sent = Instant::now();
                let reserved = limiter.reserve(&rule, &Key::of(&hot)).await;
                let outcome = match &reserved {
                    Ok(reservation) => Ok(*reservation.decision()),
                    Err(error) => Err(error.clone()),
                };
                // While it counts, it counts for so much at least: until it is completed for the
                // estimate, and then for what it did cost, which may be more.
                let least = match ends {
                    Ends::Committed => estimate.min(actual),
                    Ends::Released => 0,
                    Ends::Dropped => estimate,
                };
                promises.call(lane, Some((hot, least)), sent, &outcome);
                sleep(Duration::from_millis(random.below(300))).await;
                match (reserved, ends) {
                    (Ok(reservation), Ends::Committed) => reservation.commit(actual),
                    (Ok(reservation), Ends::Released) => reservation.release(),
                    (Ok(_) | Err(_), _) => {}
                }
            }
        });
    }

    /// Timers tell how late the runtime is, and so how late answers may be.
    fn beat(&mut self) {
        const BEAT: Duration = Duration::from_millis(5);
        let (stopped, promises) = (Arc::clone(&self.stopped), self.promises.clone());
        self.running.spawn(async move {
            let mut last = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                sleep(BEAT).await;
                // No moment is left out, not even those in which this was kept from looking.
                let now = Instant::now();
                promises.beat(last + BEAT, now);
                last = now;
            }
        });
    }

    /// Parts of the hot keys as they are stored, to find them on the servers.
    pub(crate) fn hot_keys(&self) -> Vec<String> {
        let hot = |hot| self.prefixes.iter().map(move |prefix| format!("{prefix}:rl1:sw-1s:soak:<{hot}>"));
        (0..HOT + RESERVED).flat_map(hot).collect()
    }

    /// Waits until the store alone answers; says how long after the end of the fault that was.
    pub(crate) fn recovered(&self, fault: usize, within: Duration) -> Duration {
        let ended = Instant::now();
        loop {
            thread::sleep(Duration::from_millis(20));
            let last = self.promises.last_by_another().max(ended);
            if last.elapsed() >= STEADY {
                self.promises.recovered(fault);
                return last - ended;
            }
            assert!(ended.elapsed() < within, "the store does not answer all calls {within:?} after the fault");
        }
    }

    pub(crate) async fn stop(mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        while let Some(caller) = self.running.join_next().await {
            caller.expect("no call panics");
        }
    }
}

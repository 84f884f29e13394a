//! [`Load`]: callers who never stop, whatever happens to their store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, RateLimiterBuilder, Rule};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::account::{Account, Call, Lane, Marks};
use super::witness;
use crate::support::random::Random;
use crate::support::unique;

/// The timeout of every limiter.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(100);
/// The limit of every rule. Its window is short, so that many of them fit into a case.
pub(crate) const LIMIT: Limit = Limit::new(10, Duration::from_millis(500));

/// A limiter for each.
pub(crate) const POLICIES: [OnUnavailable; 3] = [
    OnUnavailable::Local,
    OnUnavailable::Allow,
    OnUnavailable::Deny,
];

/// Callers per policy who share one key, and how long each rests between two calls.
const HOT: usize = 3;
const HOT_PAUSE: Duration = Duration::from_millis(15);
/// Callers per policy who take a new key each time.
const DISTINCT: usize = 2;
const DISTINCT_PAUSE: Duration = Duration::from_millis(10);
/// All callers of a load.
pub(crate) const CALLERS: usize = POLICIES.len() * (HOT + DISTINCT);
/// The store is back once it alone has answered for so long, this often.
const STEADY: Duration = Duration::from_millis(300);
const STEADY_CALLS: usize = 10;
/// After a machine has stopped everything, it takes a moment until the store is believed to serve
/// again.
pub(super) const AFTER_STALL: Duration = Duration::from_secs(1);
/// For so long after a fault.
const MERCY: Duration = Duration::from_secs(15);
/// How often the runtime is asked whether it keeps up.
const HEARTBEAT: Duration = Duration::from_millis(5);
/// What is no more than this is no stall.
const LATE: Duration = Duration::from_millis(20);

/// Callers of three limiters on one store, one for each policy, each with keys of its own.
#[derive(Debug)]
pub(crate) struct Load {
    start: Instant,
    lanes: Vec<Running>,
    stopped: Arc<AtomicBool>,
    callers: JoinSet<()>,
    stalls: Arc<Mutex<Vec<(Duration, Duration)>>>,
    marks: Marks,
    tasks_before: usize,
}

#[derive(Debug)]
struct Running {
    policy: OnUnavailable,
    limiter: RateLimiter,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Load {
    /// On the store that a URL names, once it serves.
    pub(crate) async fn on(url: &str) -> Self {
        Self::with(|builder| builder.redis(url)).await
    }

    /// On a store of another kind: `with` adds it, and whatever else, to a builder that has prefix,
    /// timeout and policy.
    pub(crate) async fn with(with: impl Fn(RateLimiterBuilder) -> RateLimiterBuilder) -> Self {
        let mut load = Self::new(with);
        for lane in &load.lanes {
            let ready = timeout(Duration::from_secs(10), lane.limiter.ready()).await;
            ready
                .expect("the store serves within ten seconds")
                .expect("the store serves");
        }
        load.call();
        load.go_on(LIMIT.window() + LIMIT.window() / 2).await;
        load
    }

    /// On a store that does not serve yet: the fault has begun.
    pub(crate) fn during_a_fault(with: impl Fn(RateLimiterBuilder) -> RateLimiterBuilder) -> Self {
        let mut load = Self::new(with);
        load.fault();
        load.call();
        load
    }

    fn new(with: impl Fn(RateLimiterBuilder) -> RateLimiterBuilder) -> Self {
        let tasks_before = tasks();
        let lanes = POLICIES.map(|policy| {
            let builder = RateLimiter::builder()
                .prefix(unique("load"))
                .timeout(TIMEOUT)
                .on_unavailable(policy);
            let limiter = with(builder)
                .build()
                .expect("the limiter is set up rightly");
            Running {
                policy,
                limiter,
                calls: Arc::default(),
            }
        });
        Self {
            start: Instant::now(),
            lanes: lanes.into(),
            stopped: Arc::default(),
            callers: JoinSet::new(),
            stalls: Arc::default(),
            marks: Marks::default(),
            tasks_before,
        }
    }

    fn call(&mut self) {
        let rule = Arc::new(Rule::new("load", LIMIT));
        for lane in &self.lanes {
            for caller in 0..HOT + DISTINCT {
                let (limiter, rule, calls) = (
                    lane.limiter.clone(),
                    Arc::clone(&rule),
                    Arc::clone(&lane.calls),
                );
                let (start, stopped, mut random) =
                    (self.start, Arc::clone(&self.stopped), Random::another());
                let hot = caller < HOT;
                self.callers.spawn(async move {
                    let shared = Key::of("shared");
                    for number in 0_u64.. {
                        if stopped.load(Ordering::Relaxed) {
                            return;
                        }
                        let key = if hot {
                            shared.clone()
                        } else {
                            Key::of(&(caller, number))
                        };
                        let (sent, on_clock) = (start.elapsed(), since_1970());
                        let outcome = limiter.acquire(&rule, &key).await;
                        let took = [sent, start.elapsed()];
                        let call = Call::new(took, [on_clock, since_1970()], hot, &outcome);
                        calls
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(call);
                        sleep(random.about(if hot { HOT_PAUSE } else { DISTINCT_PAUSE })).await;
                    }
                });
            }
        }
        // Timers and calls share the one thread of the runtime, so that a late timer tells of late
        // answers.
        let (start, stopped, stalls) = (
            self.start,
            Arc::clone(&self.stopped),
            Arc::clone(&self.stalls),
        );
        self.callers.spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                let due = start.elapsed() + HEARTBEAT;
                sleep(HEARTBEAT).await;
                let now = start.elapsed();
                if now > due + LATE {
                    stalls
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((due, now));
                }
            }
        });
    }

    /// Lets the callers go on for a while.
    pub(crate) async fn go_on(&self, time: Duration) {
        sleep(time).await;
    }

    /// The fault begins.
    pub(crate) fn fault(&mut self) {
        self.marks.fault = Some(self.start.elapsed());
    }

    /// The fault is over.
    pub(crate) fn healed(&mut self) {
        self.marks.healed = Some(self.start.elapsed());
    }

    /// Between two answers, the store loses what it has logged: limits begin anew, in every
    /// process.
    pub(crate) fn store_forgets(&mut self) {
        self.marks.forgets.push(self.start.elapsed());
    }

    /// Goes on until the store alone answers all callers, which must not take longer than `within`
    /// after the fault; and then for another window, so that it is seen whether limits hold.
    pub(crate) async fn recover(&mut self, within: Duration) {
        let healed = self.marks.healed.expect("the fault is over");
        loop {
            sleep(Duration::from_millis(20)).await;
            let now = self.start.elapsed();
            let since: Vec<_> = self
                .lanes
                .iter()
                .map(|lane| lane.steady_since(healed))
                .collect();
            if since
                .iter()
                .all(|since| since.is_some_and(|since| now >= since + STEADY))
            {
                break;
            }
            // A machine that stalls is given more time, again and again, though not for ever.
            let stalled = self
                .stalls()
                .into_iter()
                .map(|(_, to)| to)
                .filter(|to| *to > healed)
                .max();
            let from = stalled.map_or(healed, |stalled| stalled.min(healed + MERCY) + AFTER_STALL);
            if now > from + within + STEADY {
                let timeline = self.account().timeline();
                panic!(
                    "the store does not answer all calls {within:?} after the fault; steady since \
                     {since:?}\n{timeline}"
                );
            }
        }
        self.go_on(LIMIT.window() + Duration::from_millis(100))
            .await;
    }

    /// When the machine kept this load from being served.
    fn stalls(&self) -> Vec<(Duration, Duration)> {
        let since = |(from, to): (Instant, Instant)| {
            (
                from.saturating_duration_since(self.start),
                to.saturating_duration_since(self.start),
            )
        };
        let mut stalls: Vec<_> = witness::stalls_since(self.start)
            .into_iter()
            .map(since)
            .collect();
        stalls.extend(
            self.stalls
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter(),
        );
        stalls
    }

    /// The calls so far.
    fn account(&self) -> Account {
        let lanes = self.lanes.iter().map(Running::calls).collect();
        Account::new(lanes, self.marks.clone(), self.stalls())
    }

    /// Sends the callers home, and checks what holds for every fault.
    pub(crate) async fn end(self) -> Account {
        self.end_with(|_| {}).await
    }

    /// The same where something is expected that is not for every fault.
    pub(crate) async fn end_with(mut self, expect: impl FnOnce(&mut Account)) -> Account {
        self.stopped.store(true, Ordering::Relaxed);
        while let Some(caller) = self.callers.join_next().await {
            caller.expect("no call panics");
        }
        let mut account = self.account();
        expect(&mut account);
        account.check();
        drop(self.lanes);
        let given_up = Instant::now() + Duration::from_secs(10);
        while tasks() > self.tasks_before {
            assert!(
                Instant::now() < given_up,
                "{} tasks are left of {} new ones",
                tasks(),
                self.tasks_before
            );
            sleep(Duration::from_millis(5)).await;
        }
        account
    }
}

impl Running {
    fn calls(&self) -> Lane {
        let calls = self
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Lane {
            policy: self.policy,
            calls,
        }
    }

    /// Since when the store alone answers, if it does so often enough.
    fn steady_since(&self, healed: Duration) -> Option<Duration> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // They stand in the order of their answers, and a soak has millions of them.
        let late = || calls.iter().rev().take_while(|call| call.answered > healed);
        let since = late()
            .find(|call| !call.by.is_store())
            .map_or(healed, |call| call.answered);
        let steady = late().filter(|call| !call.hot && call.sent > since).count();
        (steady >= STEADY_CALLS).then_some(since)
    }
}

fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

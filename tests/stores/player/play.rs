//! Plays steps on two stores and compares all they say, but for what [`excluded`](super::excluded)
//! lists.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use ratelimit_runtime::__private::{BuiltInStore as _, Sealed};
use ratelimit_runtime::store::{Capabilities, Feature, Request, Store};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Limit, MemoryStore};
use tokio::runtime::Runtime;

use super::excluded::{Circumstances, Part, assert_same, left_out};
use super::{Column, Kind, Reserves, Shape, Step, capacity};
use crate::support::redis::{Link, shared};
use crate::support::unique;

/// A call that both stores have admitted.
#[derive(Debug, Clone, Copy)]
struct Admitted {
    ours: u64,
    theirs: u64,
    cost: u64,
    reserves: Reserves,
}

/// One key on both stores.
pub(super) struct Play<'a> {
    redis: &'a dyn Store,
    memory: MemoryStore,
    clock: &'a FakeClock,
    declared: Capabilities,
    pub(super) kind: Kind,
    pub(super) shape: &'a Shape,
    key: String,
    /// Those of the step.
    limits: Vec<Limit>,
    context: String,
    /// The highest maximum so far, by its index.
    highest: usize,
    admitted: Vec<Admitted>,
    settled: Vec<(Admitted, u64)>,
    /// The costs of the refusals that a deny cache has learnt last.
    known: HashMap<Vec<Limit>, u64>,
    cached: u64,
    pub(super) is_blocked_by_hand: bool,
    was_set_back: bool,
    life: Option<KeyLife>,
}

/// The life of the key on Redis, which ends by the clock of the steps: its expiry is taken over.
struct KeyLife {
    link: Link,
    stored: String,
    passed: Duration,
    ends: Option<Duration>,
    has_ended: bool,
}

impl KeyLife {
    /// Of a key that was last written behind this moment.
    fn written(&mut self, began: Instant) {
        let left = self.link.send(&["PTTL", &self.stored]).unwrap();
        // Where it is negative, the key has none, as it was taken over before.
        if let Ok(left) = left.parse() {
            self.link.send(&["PERSIST", &self.stored]).unwrap();
            let since = began.elapsed() + Duration::from_millis(1);
            let left = (Duration::from_millis(left) + since).saturating_sub(LONGER);
            self.ends = Some(self.passed + left);
            self.has_ended = false;
        }
    }

    fn left(&self) -> Duration {
        self.ends
            .map_or(Duration::ZERO, |ends| ends.saturating_sub(self.passed))
    }

    fn advance(&mut self, time: Duration) {
        self.passed += time;
        if self.ends.is_some_and(|ends| ends <= self.passed) {
            self.link.send(&["DEL", &self.stored]).unwrap();
            self.has_ended = true;
        }
    }
}

impl Drop for KeyLife {
    fn drop(&mut self) {
        let _ = self.link.send(&["DEL", &self.stored]);
    }
}

/// Keys on Redis live for so much longer than they have to by the clock of the steps, and expire by
/// the server's.
const LONGER: Duration = Duration::from_secs(1);
const KEYS_LAST: Duration = Duration::from_millis(900);
/// The most plays of the same steps, where the machine stands still in each that fails.
const PLAYS: u32 = 10;

/// Gives how many refusals a deny cache has repeated. A failure after more time than keys last is
/// none of the stores: the steps are played again, on another key.
pub(super) fn play(
    runtime: &Runtime,
    redis: &dyn Store,
    clock: &FakeClock,
    kind: Kind,
    shape: &Shape,
    steps: &[Step],
) -> u64 {
    for _ in 1..PLAYS {
        let began = Instant::now();
        let play = || runtime.block_on(play_once(redis, clock, kind, shape, steps));
        match catch_unwind(AssertUnwindSafe(play)) {
            Ok(cached) => return cached,
            Err(failure) if began.elapsed() < KEYS_LAST => resume_unwind(failure),
            Err(_) => {}
        }
    }
    runtime.block_on(play_once(redis, clock, kind, shape, steps))
}

async fn play_once(
    redis: &dyn Store,
    clock: &FakeClock,
    kind: Kind,
    shape: &Shape,
    steps: &[Step],
) -> u64 {
    let key = unique("differential");
    let life = |suffix| KeyLife {
        link: shared().connect(),
        stored: format!("{key}{suffix}"),
        passed: Duration::ZERO,
        ends: None,
        has_ended: false,
    };
    let life = match kind.column {
        Column::Scripts => Some(life("")),
        Column::Transactions => Some(life("%log")),
        Column::DenyCache => None,
    };
    let mut play = Play {
        redis,
        memory: MemoryStore::new().with_clock(clock.clone()),
        clock,
        declared: redis.capabilities(),
        kind,
        shape,
        key,
        limits: Vec::new(),
        context: String::new(),
        highest: 0,
        admitted: Vec::new(),
        settled: Vec::new(),
        known: HashMap::new(),
        cached: 0,
        is_blocked_by_hand: false,
        was_set_back: false,
        life,
    };
    for (at, step) in steps.iter().enumerate() {
        let left_out: Vec<_> = left_out(&play).collect();
        play.context = format!("step {at} of {steps:?} under {shape:?} without {left_out:?}");
        let began = Instant::now();
        if !play.step(step).await {
            break;
        }
        let is_left_out = play.was_set_back || play.leaves_out(Part::KeyEnd);
        if let Some(life) = play.life.as_mut().filter(|_| !is_left_out) {
            life.written(began);
        }
    }
    play.cached
}

impl Play<'_> {
    pub(super) fn has(&self, feature: Feature) -> bool {
        let algorithm = self.kind.algorithm;
        self.declared.supports_feature(algorithm, feature)
    }

    fn leaves_out(&self, part: Part) -> bool {
        left_out(self).any(|(left_out, _)| left_out == part)
    }

    /// `false` where the stores part, and nothing after it can be compared.
    async fn step(&mut self, step: &Step) -> bool {
        self.limits = self.limits_of(step);
        match *step {
            Step::Acquire {
                cost,
                reserves,
                block,
                ..
            } => return self.acquire(cost, reserves, block).await,
            Step::Peek { cost, .. } => self.peek(cost).await,
            Step::Offend { cost, .. } => self.offend(cost).await,
            Step::Refund { which } => self.refund(which).await,
            Step::Settle { which, actual } => self.settle(which, actual).await,
            Step::SettleAgain { which } => self.settle_again(which).await,
            Step::Block { micros } => self.block(Duration::from_micros(micros)).await,
            Step::Unblock => self.unblock().await,
            Step::Reset => self.reset().await,
            Step::Advance { micros } => self.advance(Duration::from_micros(micros)),
            Step::Expire => self.advance(self.life.as_ref().map_or(Duration::ZERO, KeyLife::left)),
            Step::Rewind { micros } => self.set_back(Duration::from_micros(micros)),
        }
        true
    }

    fn limits_of(&mut self, step: &Step) -> Vec<Limit> {
        let max = match step {
            Step::Acquire { max, .. } | Step::Peek { max, .. } | Step::Offend { max, .. } => *max,
            _ => 0,
        };
        if self.leaves_out(Part::LowerMax) {
            self.highest = self.highest.max(max);
        }
        self.shape.limits(max.max(self.highest))
    }

    /// Of a cost that the limits can admit.
    fn request(&self, cost: u64) -> Request<'_> {
        let most = capacity(self.kind.algorithm, &self.limits).min(self.shape.largest_cost);
        self.plain().with_cost(cost.min(most))
    }

    fn plain(&self) -> Request<'_> {
        self.kind.request(self.key.as_bytes(), &self.limits)
    }

    /// Of rules with an even number of limits the block grows.
    fn blocking<'a>(&self, request: Request<'a>) -> Request<'a> {
        let [first, longest] = [1_500, 20_000].map(Duration::from_millis);
        let is_even = self.shape.limits.len().is_multiple_of(2);
        if is_even && !self.leaves_out(Part::GrowingBlock) {
            request.with_growing_block(first, longest)
        } else {
            request.with_block(first)
        }
    }

    async fn acquire(&mut self, cost: u64, reserves: Reserves, block: bool) -> bool {
        let reserves = if self.leaves_out(Part::Reservation) {
            Reserves::Nothing
        } else {
            reserves
        };
        let mut request = reserves.of(self.request(cost));
        if block && !self.leaves_out(Part::Block) {
            request = self.blocking(request);
        }
        let cost = request.cost();
        let ours = self.memory.acquire(request).await.unwrap();
        let theirs = self.redis.acquire(request).await.unwrap();
        let mut open = self.admitted.iter().map(|admitted| admitted.reserves);
        let how = Circumstances {
            is_known: theirs.cached,
            is_of_another: self.known.get(&self.limits) != Some(&cost),
            is_any_open: open.any(|reserves| reserves == Reserves::Cost),
            is_blocked: theirs.blocked,
            was_set_back: self.was_set_back,
            ..Circumstances::default()
        };
        self.cached += u64::from(theirs.cached);
        if theirs.cached && how.is_any_open && ours.allowed {
            // What was reserved has lapsed meanwhile: memory alone has charged the call.
            return false;
        }
        assert_same(&ours, &theirs, how, &self.context);
        assert!(
            !theirs.cached || theirs.retry_after_us > 0,
            "{}",
            self.context
        );
        if !theirs.allowed && !theirs.cached {
            self.known.insert(self.limits.clone(), cost);
        }
        if ours.allowed && cost > 0 {
            self.admitted.push(Admitted {
                ours: ours.ticket,
                theirs: theirs.ticket,
                cost,
                reserves,
            });
        }
        true
    }

    async fn peek(&mut self, cost: u64) {
        let request = self.request(cost);
        let cost = request.cost();
        let ours = self.memory.peek(request).await.unwrap();
        let theirs = self.redis.peek(request).await.unwrap();
        assert_same(&ours, &theirs, Circumstances::default(), &self.context);
        if !theirs.allowed {
            self.known.insert(self.limits.clone(), cost);
        }
    }

    async fn offend(&self, cost: u64) {
        if self.leaves_out(Part::Block) {
            return;
        }
        let request = self.blocking(self.request(cost));
        let ours = self.memory.offend(request).await.unwrap();
        let theirs = self.redis.built_in(Sealed).unwrap();
        let theirs = theirs.offend(request).await.unwrap();
        assert_same(&ours, &theirs, Circumstances::default(), &self.context);
    }

    async fn refund(&self, which: usize) {
        let Some(&admitted) = self.admitted.get(which) else {
            return;
        };
        if admitted.reserves != Reserves::Nothing {
            return;
        }
        let request = self.plain().with_cost(admitted.cost);
        let ours = self.memory.refund(request, admitted.ours).await.unwrap();
        let theirs = self.redis.refund(request, admitted.theirs).await.unwrap();
        assert_eq!(ours, theirs, "{}", self.context);
    }

    async fn settle(&mut self, which: usize, actual: Option<u64>) {
        let Some(&admitted) = self.admitted.get(which) else {
            return;
        };
        // What was reserved by `count` is committed or released.
        let actual = match (admitted.reserves, actual) {
            (Reserves::Nothing, _) => return,
            (Reserves::Cost, Some(actual)) if actual % 2 == 0 => 0,
            (Reserves::Estimate, Some(actual)) => actual,
            _ => admitted.cost,
        };
        self.admitted.remove(which);
        self.settled.push((admitted, actual));
        let request = admitted.reserves.of(self.plain().with_cost(admitted.cost));
        let _ = self.settled_alike(request, admitted, actual).await;
    }

    async fn settle_again(&self, which: usize) {
        let Some(&(admitted, actual)) = self.settled.get(which) else {
            return;
        };
        if self.leaves_out(Part::SettlingAgain) {
            return;
        }
        let request = admitted.reserves.of(self.plain().with_cost(admitted.cost));
        let was_open = self
            .settled_alike(request.sent_again(), admitted, actual)
            .await;
        assert!(!was_open, "{}", self.context);
    }

    async fn settled_alike(&self, request: Request<'_>, of: Admitted, actual: u64) -> bool {
        let ours = self.memory.settle(request, of.ours, actual).await.unwrap();
        let theirs = self.redis.settle(request, of.theirs, actual).await.unwrap();
        assert_eq!(ours, theirs, "{}", self.context);
        ours.was_open
    }

    async fn block(&mut self, time: Duration) {
        self.is_blocked_by_hand = true;
        if !self.leaves_out(Part::BlockByHand) {
            self.memory.block(self.plain(), time).await.unwrap();
            self.redis.block(self.plain(), time).await.unwrap();
        }
    }

    async fn unblock(&mut self) {
        self.is_blocked_by_hand = true;
        if !self.leaves_out(Part::BlockByHand) {
            let ours = self.memory.unblock(self.plain()).await.unwrap();
            let theirs = self.redis.unblock(self.plain()).await.unwrap();
            assert_eq!(ours, theirs, "{}", self.context);
        }
    }

    async fn reset(&mut self) {
        self.memory.reset(self.plain()).await.unwrap();
        self.redis.reset(self.plain()).await.unwrap();
        self.admitted.clear();
        self.settled.clear();
    }

    fn advance(&mut self, time: Duration) {
        self.clock.advance(time);
        if let Some(life) = &mut self.life {
            life.advance(time);
        }
    }

    fn set_back(&mut self, time: Duration) {
        // By a clock that was set back, what a key holds counts for longer than the key lives, and
        // what memory still holds of a key that has ended counts again.
        let has_ended = self.life.as_ref().is_some_and(|life| life.has_ended);
        if !self.leaves_out(Part::SettingBack) && !has_ended {
            self.was_set_back = true;
            if let Some(life) = &mut self.life {
                life.ends = None;
            }
            self.clock.step_back(time);
        }
    }
}

//! Random steps on two stores of one server that take units ahead of one key, on a clock that the
//! test moves. A model knows what each store holds, from what the server counts before and after
//! each step: a call admitted without asking must have been charged before, within the lease, by
//! units that are not void; a call that asks gets the server's count.
//!
//! The server expires keys, and the store ends leases, by clocks that the test does not move. The
//! test undoes the expiry after each write; if the machine is too slow for either clock, the steps
//! end.

use std::cell::Cell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store as _};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::oracle::{Admission, check};
use crate::support::redis::{Link, shared};
use crate::support::{polled, unique};

/// Longer than most runs of steps take, so that only the clock of the test ends a lease.
const LEASE: u64 = 10_000_000;
/// The part of a lease that is used, in microseconds.
const SPENDABLE: u64 = LEASE / 500 * 499;
/// What a bucket waits for what is given back, in microseconds.
const GRACE: u64 = 20_000;
const DAY: u64 = 86_400_000_000;

#[derive(Debug, Clone)]
enum Step {
    /// So many calls, with a pause in microseconds before each.
    Calls {
        store: usize,
        calls: u64,
        cost: u64,
        pause: u64,
    },
    /// A call that takes all units left.
    Fill {
        store: usize,
    },
    /// A call that is polled so many times, and then dropped.
    Dropped {
        store: usize,
        cost: u64,
        polls: u64,
    },
    Refund {
        store: usize,
        which: usize,
    },
    Reset {
        store: usize,
    },
    Block {
        store: usize,
        micros: u64,
    },
    Unblock {
        store: usize,
    },
    Advance {
        micros: u64,
    },
    /// To the end of the window, but for so many microseconds.
    AdvanceToEnd {
        less: u64,
    },
}

#[derive(Debug, Clone)]
struct Shape {
    limit: Limit,
    steps: Vec<Step>,
}

fn shapes(algorithm: Algorithm) -> impl Strategy<Value = Shape> {
    let max = prop::sample::select(vec![60, 200, 1_000, 5_000]);
    let window = prop::sample::select(vec![50 * LEASE, 360 * LEASE, 30 * DAY]);
    let steps = prop::collection::vec(steps(), 1..30);
    (max, window, 1_u64..4, steps).prop_map(move |(max, window, part, steps)| {
        let limit = Limit::new(max, Duration::from_micros(window));
        let limit = if algorithm.has_burst() {
            limit.with_burst(max / part)
        } else {
            limit
        };
        Shape { limit, steps }
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let store = || 0_usize..2;
    let pause = prop_oneof![Just(0), Just(1), 1_u64..400_000];
    let cost = prop_oneof![4 => Just(1_u64), 2 => 1_u64..5, 1 => 1_u64..40];
    let time = prop_oneof![
        4 => 1_u64..LEASE,
        2 => SPENDABLE - 2..SPENDABLE + 3,
        2 => LEASE - 2..LEASE + GRACE + 3,
        2 => LEASE..8 * LEASE,
        1 => 50 * LEASE - 2..53 * LEASE,
        1 => 1..40 * LEASE,
    ];
    let calls = (store(), 1_u64..40, cost.clone(), pause);
    prop_oneof![
        12 => calls.prop_map(|(store, calls, cost, pause)| Step::Calls {
            store,
            calls,
            cost,
            pause,
        }),
        2 => (store(), cost, 0_u64..6)
            .prop_map(|(store, cost, polls)| Step::Dropped { store, cost, polls }),
        2 => (store(), 0_usize..200).prop_map(|(store, which)| Step::Refund { store, which }),
        1 => store().prop_map(|store| Step::Reset { store }),
        1 => (store(), 1..2 * LEASE).prop_map(|(store, micros)| Step::Block { store, micros }),
        1 => store().prop_map(|store| Step::Unblock { store }),
        6 => time.prop_map(|micros| Step::Advance { micros }),
        3 => store().prop_map(|store| Step::Fill { store }),
        4 => (0..LEASE).prop_map(|less| Step::AdvanceToEnd { less }),
    ]
}

/// The units that a store has taken ahead.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The time until which the units may be spent.
    until: u64,
    /// The time until which all units left count, so that as many are given back.
    counts: u64,
    /// The time at which the store gives them back, by a clock that the test does not move.
    ends: Instant,
    /// The units taken, and the units left: at most, or exactly.
    units: u64,
    left: u64,
    is_exact: bool,
    /// `true` if the other store has reset the key since.
    is_forgotten: bool,
}

/// The least and the most.
type Range = (u64, u64);

struct Play<'a> {
    algorithm: Algorithm,
    limits: [Limit; 1],
    key: String,
    clock: FakeClock,
    stores: &'a [RedisStore; 2],
    /// Never takes anything ahead.
    observer: &'a RedisStore,
    link: Link,
    /// `true` if a key expired, or a lease ended, by another clock than the test's.
    is_late: bool,
    start: u64,
    held: [Option<Held>; 2],
    /// And the ticket of each. A refund removes it.
    admissions: Vec<(Admission, u64)>,
    /// The units that may be admitted beyond the bound, because they were held when the other store
    /// reset the key.
    more: u64,
    /// The most units charged by dropped calls.
    dropped: u64,
    by_grant: u64,
}

impl Play<'_> {
    fn request(&self, cost: u64) -> Request<'_> {
        Request::new(self.key.as_bytes(), self.algorithm, &self.limits).with_cost(cost)
    }

    fn now(&self) -> u64 {
        micros(self.clock.now())
    }

    /// What the server counts.
    async fn seen(&self, cost: u64) -> Verdict {
        self.observer.peek(self.request(cost)).await.unwrap()
    }

    /// Keeps the server from expiring the key, which is there if it was `written`, or if units that
    /// a store holds count in it.
    fn keep(&mut self, written: bool) {
        self.link.send(&["PERSIST", &self.key]).unwrap();
        let mut held = self.held.iter().flatten();
        let is_there = written || held.any(|held| self.returned(held).0 > 0);
        self.is_late |= is_there && self.link.send(&["EXISTS", &self.key]).unwrap() == "0";
    }

    fn is_late(&mut self) -> bool {
        let now = Instant::now();
        self.is_late |= self.held.iter().flatten().any(|held| now >= held.ends);
        self.is_late
    }

    /// Waits until a store has nothing on its way: what it has asked before is answered first.
    async fn quiet(&self, store: usize) {
        for _ in 0..2 {
            for _ in 0..8 {
                yield_now().await;
            }
            let _ = self.stores[store].peek(self.request(1)).await.unwrap();
        }
        yield_now().await;
    }

    async fn step(&mut self, step: &Step) {
        match *step {
            Step::Calls {
                store,
                calls,
                cost,
                pause,
            } => {
                for _ in 0..calls {
                    self.clock.advance(Duration::from_micros(pause));
                    self.call(store, cost, None).await;
                    if self.is_late {
                        return;
                    }
                }
            }
            Step::Fill { store } => {
                let left = self.seen(1).await.remaining;
                // A log takes no more at once.
                self.call(store, left.clamp(1, 1_000), None).await;
            }
            Step::Dropped { store, cost, polls } => self.call(store, cost, Some(polls)).await,
            Step::Refund { store, which } => self.refund(store, which).await,
            Step::Reset { store } => self.reset(store).await,
            Step::Block { store, micros } => {
                let duration = Duration::from_micros(micros);
                let blocked = self.stores[store].block(self.request(1), duration).await;
                blocked.unwrap();
                self.void(store).await;
                self.keep(true);
            }
            Step::Unblock { store } => {
                self.stores[store].unblock(self.request(1)).await.unwrap();
                self.void(store).await;
                self.keep(false);
            }
            Step::Advance { micros } => self.clock.advance(Duration::from_micros(micros)),
            Step::AdvanceToEnd { less } => {
                let ends = self.until_end(&self.seen(1).await);
                let step = Duration::from_micros(ends.saturating_sub(less));
                self.clock.advance(step);
            }
        }
    }

    async fn call(&mut self, store: usize, cost: u64, polls: Option<u64>) {
        let cost = cost.min(self.limits[0].capacity());
        let now = self.now();
        let is_spendable = |held: &Held| {
            held.is_exact && !held.is_forgotten && held.left >= cost && now < held.until
        };
        let is_spendable = self.held[store].as_ref().is_some_and(is_spendable);
        // A call that does not ask changes nothing that the server counts.
        let before = if is_spendable {
            None
        } else {
            Some(self.seen(cost).await)
        };
        let sent = Instant::now();
        let request = self.request(cost);
        let request = request.with_prefetch(Duration::from_micros(LEASE));
        let asked = self.stores[store].acquire(request);
        let answer = match polls {
            Some(polls) => polled(asked, polls).await,
            None => Some(asked.await),
        };
        let answer = answer.map(Result::unwrap);
        let is_charged = answer.is_some_and(|told| told.allowed && !told.cached);
        self.keep(is_charged);
        if self.is_late() {
            return;
        }
        if let Some(told) = answer.filter(|told| told.allowed) {
            self.admitted(cost, &told);
        }
        if let Some(told) = answer.filter(|told| told.cached) {
            assert!(told.allowed, "nothing else is cached");
            self.spent(store, cost);
            return;
        }
        let Some(before) = before else {
            assert!(answer.is_none(), "{:?} is not spent", self.held[store]);
            return;
        };
        let (least, most) = self.taken_back(store, cost, &before);
        let charged = match answer {
            Some(told) => {
                let may_be = if told.allowed {
                    most >= cost
                } else {
                    least < cost
                };
                assert!(may_be, "{told:?}, {before:?}, {least} to {most}");
                assert_eq!(told.blocked, before.blocked);
                let charged = if told.allowed { cost } else { 0 };
                let left = least.max(charged) - charged..=most - charged;
                assert!(left.contains(&told.remaining), "{told:?}, in {left:?}");
                (charged, charged)
            }
            None => (0, if most >= cost { cost } else { 0 }),
        };
        self.quiet(store).await;
        self.keep(is_charged);
        if self.is_late() {
            return;
        }
        let given_back = self.used_up(store, cost, answer.is_some());
        let after = self.seen(cost).await;
        if answer.is_none() {
            self.dropped += charged.1;
        }
        if before.blocked || after.blocked {
            return;
        }
        // What is there before units are taken ahead: so much at least, and at most.
        let floor = (before.remaining + given_back.0).saturating_sub(charged.1);
        let ceiling = before.remaining + given_back.1 - charged.0;
        assert!(after.remaining <= ceiling, "{after:?}, not above {ceiling}");
        let ahead = (
            floor.saturating_sub(after.remaining),
            ceiling - after.remaining,
        );
        assert!(
            ahead.0 <= ceiling / 4,
            "{ahead:?} of {ceiling} were taken ahead"
        );
        assert!(ahead.0 == 0 || ahead.1 >= 8, "{ahead:?} were taken ahead");
        if ahead.1 >= 8 {
            let new = self.taken(ahead, &after, sent);
            // Of a call that was dropped nobody knows which of the two is held.
            let held = self.held[store].map_or(new, |held| Held {
                left: held.left.max(new.left),
                is_exact: false,
                ..new
            });
            self.held[store] = Some(held);
        }
    }

    /// How much is left for a call: a store that holds what cannot be spent for it gives that back,
    /// where it is enough for the call not to be refused.
    fn taken_back(&self, store: usize, cost: u64, before: &Verdict) -> Range {
        let is_refused = !before.allowed && !before.blocked;
        let is_enough = |held: &Held| is_refused && before.remaining + held.left >= cost;
        let held = self.held[store].filter(is_enough);
        let (least, most) = held.map_or((0, 0), |held| self.returned(&held));
        (before.remaining + least, before.remaining + most)
    }

    /// How long the window lasts that the server counts in: one that begins with the first charge,
    /// where there are such. A sliding counter counts for two of them.
    fn until_end(&self, seen: &Verdict) -> u64 {
        let window = micros(self.limits[0].window());
        match self.algorithm {
            Algorithm::FixedWindow => seen.reset_after_us,
            Algorithm::SlidingCounter => seen.reset_after_us.saturating_sub(window),
            _ => window,
        }
    }

    /// What was taken ahead just now.
    fn taken(&self, (least, most): Range, after: &Verdict, sent: Instant) -> Held {
        let (at, window) = (self.now(), micros(self.limits[0].window()));
        let (until, counts) = match self.algorithm {
            Algorithm::SlidingWindow => (at + SPENDABLE, at + LEASE + window),
            Algorithm::FixedWindow | Algorithm::SlidingCounter => {
                let ends = at + self.until_end(after);
                ((at + SPENDABLE).min(ends), ends)
            }
            _ => (at + SPENDABLE, at + LEASE + GRACE),
        };
        Held {
            until,
            counts,
            ends: sent + Duration::from_micros((until - at) / 500 * 499),
            units: most,
            left: most,
            // Where a window ends, so does the lease, and its units are fewer.
            is_exact: least == most && counts > at + LEASE,
            is_forgotten: false,
        }
    }

    fn admitted(&mut self, cost: u64, told: &Verdict) {
        let now = i64::try_from(self.now() * 1_000).unwrap();
        let admission = Admission {
            before: now,
            after: now,
            units: i64::try_from(cost).unwrap(),
            by_grant: told.cached,
        };
        self.admissions.push((admission, told.ticket));
    }

    /// A call was admitted without asking.
    fn spent(&mut self, store: usize, cost: u64) {
        let now = self.now();
        let held = self.held[store].as_mut();
        let held = held.expect("only what was taken ahead is spent");
        assert!(
            now < held.until && held.left >= cost,
            "{cost} of {held:?} are spent at {now}"
        );
        held.left -= cost;
        self.by_grant += 1;
    }

    /// How much is given back by a store that has nothing to spend any more for a call of this cost
    /// that asked, or may have.
    fn used_up(&mut self, store: usize, cost: u64, has_asked: bool) -> Range {
        let now = self.now();
        let is_used_up = |held: &Held| now >= held.until || held.left < cost || !held.is_exact;
        let Some(held) = self.held[store].filter(is_used_up) else {
            return (0, 0);
        };
        let (least, most) = self.returned(&held);
        if has_asked {
            self.held[store] = None;
            return (least, most);
        }
        let held = self.held[store].as_mut();
        held.expect("it was there").is_exact = false;
        (0, most)
    }

    /// How much the server counts less when what is left is given back.
    fn returned(&self, held: &Held) -> Range {
        let is_certain = held.is_exact && !held.is_forgotten && self.now() < held.counts;
        (if is_certain { held.left } else { 0 }, held.left)
    }

    /// What a store has taken ahead is void. Gives how much is given back.
    async fn void(&mut self, store: usize) -> Range {
        self.quiet(store).await;
        self.is_late();
        let held = self.held[store].take();
        held.map_or((0, 0), |held| self.returned(&held))
    }

    async fn refund(&mut self, store: usize, which: usize) {
        let Some(&(admission, ticket)) = self.admissions.get(which) else {
            return;
        };
        let cost = u64::try_from(admission.units).unwrap();
        let before = self.seen(1).await;
        let refund = self.stores[store].refund(self.request(cost), ticket);
        let is_changed = refund.await.unwrap();
        let given_back = self.void(store).await;
        let after = self.seen(1).await;
        self.keep(false);
        if self.is_late() {
            return;
        }
        if is_changed {
            self.admissions.remove(which);
            // Others may have what had drained meanwhile.
            self.more += if self.algorithm.has_burst() { cost } else { 0 };
        }
        if !before.blocked && !after.blocked {
            let refunded = if is_changed { cost } else { 0 };
            let range =
                before.remaining + given_back.0..=before.remaining + given_back.1 + refunded;
            assert!(
                range.contains(&after.remaining),
                "{after:?}, in {range:?} after a refund of {cost}: {is_changed}"
            );
        }
    }

    async fn reset(&mut self, store: usize) {
        if self.algorithm == Algorithm::SlidingWindow {
            // A log that was reset gives the tickets of microseconds that are not over again, and
            // what another store gives back of before takes those: docs/redis_format_faults.md.
            let ahead = self.limits[0].capacity();
            self.clock.advance(Duration::from_micros(ahead));
        }
        self.stores[store].reset(self.request(1)).await.unwrap();
        self.quiet(store).await;
        self.held[store] = None;
        let after = self.seen(1).await;
        assert_eq!(after.remaining, self.limits[0].capacity());
        assert!(!after.blocked);
        self.admissions.clear();
        (self.more, self.dropped) = (0, 0);
        // What the other store holds is spent within its lease, or given back, uncharged.
        if let Some(held) = self.held[1 - store].as_mut() {
            held.is_forgotten = true;
        }
        for held in self.held.iter().flatten() {
            self.more += held.units;
            if self.algorithm.has_burst() {
                // A bucket forgets as much of what others hold, which drains then.
                self.more += self.limits[0].max() / 50 + 1;
            }
        }
    }

    /// Nothing is held any more, and nothing was passed.
    async fn end(mut self) -> u64 {
        for store in 0..2 {
            self.stores[store].settled().await.unwrap();
            self.void(store).await;
        }
        self.observer.unblock(self.request(1)).await.unwrap();
        let admissions: Vec<_> = self.admissions.iter().map(|(one, _)| *one).collect();
        let more = i64::try_from(self.more).unwrap();
        check(self.algorithm, &self.limits[0], &admissions, more).unwrap();
        // Until here, nothing has left its window.
        let window = micros(self.limits[0].window());
        let is_all_counted = self.now() - self.start < window && self.more == 0;
        if is_all_counted && !self.algorithm.has_burst() {
            let spent = admissions.iter().map(|one| one.units).sum::<i64>();
            let spent = u64::try_from(spent).unwrap();
            let used = self.limits[0].capacity() - self.seen(1).await.remaining;
            assert!(
                (spent..=spent + self.dropped).contains(&used),
                "{spent} were spent, and {used} are used"
            );
        }
        self.by_grant
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

/// Two stores of one server and one who looks on, on one clock.
struct Table {
    runtime: Runtime,
    clock: FakeClock,
    stores: [RedisStore; 2],
    observer: RedisStore,
    /// How many runs ended because the machine was too slow.
    late: Cell<u32>,
}

impl Table {
    fn new() -> Self {
        let clock = FakeClock::new();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let store = || {
            let store = shared().store();
            let store = store.with_clock(clock.clone()).deny_cache(false);
            runtime.block_on(store.ready()).unwrap();
            store
        };
        Self {
            stores: [store(), store()],
            observer: store(),
            late: Cell::new(0),
            runtime,
            clock,
        }
    }

    /// Plays the steps; gives how many calls were admitted by units taken ahead.
    fn play(&self, algorithm: Algorithm, limit: Limit, steps: &[Step]) -> u64 {
        let mut play = Play {
            algorithm,
            limits: [limit],
            key: unique("player"),
            clock: self.clock.clone(),
            stores: &self.stores,
            observer: &self.observer,
            link: shared().connect(),
            is_late: false,
            start: micros(self.clock.now()),
            held: [None; 2],
            admissions: Vec::new(),
            more: 0,
            dropped: 0,
            by_grant: 0,
        };
        self.runtime.block_on(async {
            for step in steps {
                play.step(step).await;
                if play.is_late() {
                    println!("{algorithm}: the machine was too slow for {steps:?}");
                    self.late.set(self.late.get() + 1);
                    return play.by_grant;
                }
            }
            play.end().await
        })
    }
}

fn play_all(algorithm: Algorithm) {
    let cases = std::env::var("RATELIMIT_TEST_CASES");
    let cases = cases.ok().and_then(|n| n.parse().ok()).unwrap_or(15);
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let (table, by_grant) = (Table::new(), Cell::new(0));
    let result = runner.run(&shapes(algorithm), |Shape { limit, steps }| {
        by_grant.set(by_grant.get() + table.play(algorithm, limit, &steps));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{algorithm}: {error}"));
    println!(
        "{algorithm}: {} calls in {cases} runs by grants",
        by_grant.get()
    );
    assert!(by_grant.get() > u64::from(cases));
    // Keys that expire early, whatever the machine does, are a fault of the store.
    assert!(table.late.get() <= cases / 2, "{}", table.late.get());
}

/// In the fewest steps: what is spent when a lease is all but over, and what is not spent behind
/// the end of its window.
#[test]
fn the_last_moment_of_a_lease_is_as_the_model() {
    let calls = |store, calls, cost| Step::Calls {
        store,
        calls,
        cost,
        pause: 0,
    };
    let at_the_end_of_a_lease = [
        calls(0, 12, 1),
        Step::Advance {
            micros: SPENDABLE - 1,
        },
        calls(0, 4, 1),
        Step::Fill { store: 1 },
        // What was charged for the first calls has left the window, and no more.
        Step::AdvanceToEnd {
            less: SPENDABLE - 1_000,
        },
        Step::Fill { store: 1 },
    ];
    let at_the_end_of_a_window = [
        calls(1, 1, 1),
        Step::AdvanceToEnd { less: 4_000_000 },
        calls(0, 6, 5),
        Step::Advance { micros: 3_999_000 },
        calls(0, 1, 1),
        Step::Advance { micros: 1_001 },
        calls(0, 1, 1),
    ];
    let table = Table::new();
    for &algorithm in Algorithm::ALL {
        for steps in [&at_the_end_of_a_lease[..], &at_the_end_of_a_window] {
            let limit = Limit::new(200, Duration::from_micros(50 * LEASE));
            let by_grant = table.play(algorithm, limit, steps);
            assert!(by_grant > 0, "{algorithm}: {steps:?}");
        }
    }
}

#[test]
fn a_log_is_as_the_model() {
    play_all(Algorithm::SlidingWindow);
}

#[test]
fn windows_are_as_the_model() {
    play_all(Algorithm::FixedWindow);
    play_all(Algorithm::SlidingCounter);
}

#[test]
fn buckets_are_as_the_model() {
    play_all(Algorithm::TokenBucket);
    play_all(Algorithm::LeakyBucket);
}

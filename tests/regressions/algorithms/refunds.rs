//! Refunds of buckets, held against a model that keeps every charge: never more than if the call
//! had not come, and all of the cost where the page says so.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Charge(u64),
    /// Of the charges that were not given back, counted from the newest.
    Refund(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pass = prop_oneof![4 => 0..2_500_u64, 2 => 0..200_u64, 1 => Just(0_u64), 1 => 0..30_000_u64];
    let step = prop_oneof![
        5 => prop_oneof![2 => Just(1_u64), 1 => 1..6_u64].prop_map(Step::Charge),
        3 => (0..6_usize).prop_map(Step::Refund),
        5 => pass.prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

/// Levels are in tokens times the window: a charge adds `cost · window`, a microsecond drains
/// `max`.
struct Model {
    limit: Limit,
    /// Time, cost.
    charges: Vec<(u64, u64)>,
    refunded: Vec<bool>,
}

impl Model {
    /// The level at `now`, and the lowest since charge `since`, as if what was refunded had never
    /// come.
    fn replay(&self, now: u64, since: usize) -> (u128, u128) {
        let (max, window) = (u128::from(self.limit.max()), u128::from(self.limit.window_us()));
        let (mut level, mut at, mut lowest) = (0_u128, 0, u128::MAX);
        for (index, &(time, cost)) in self.charges.iter().enumerate() {
            level = level.saturating_sub(u128::from(time - at) * max);
            at = time;
            if index > since {
                lowest = lowest.min(level);
            }
            if !self.refunded[index] {
                level += u128::from(cost) * window;
            }
        }
        level = level.saturating_sub(u128::from(now - at) * max);
        (level, lowest.min(level))
    }

    /// The lowest level that a charge found from `from` on, and at `now`.
    fn lowest_from(&self, now: u64, from: u64) -> u128 {
        let first = self.charges.iter().position(|(time, _)| *time >= from).unwrap_or(0);
        self.replay(now, first).1
    }

    fn reset_after(&self, level: u128) -> u64 {
        u64::try_from(level.div_ceil(u128::from(self.limit.max()))).unwrap()
    }
}

#[test]
fn a_refund_gives_back_no_more_than_if_the_call_had_not_come() {
    let cases = std::env::var("RATELIMIT_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let limit = (1..8_u64, prop::sample::select(vec![10_000_u64, 10_007]), prop::option::of(1..20_u64));
    let limit = limit.prop_map(|(max, window, burst)| {
        let limit = per(max, window);
        burst.map_or(limit, |burst| limit.with_burst(burst))
    });
    let result = runner.run(&(limit, steps()), |(limit, steps)| {
        for &algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.has_burst()) {
            runtime.block_on(play(algorithm, limit, &steps))?;
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

async fn play(algorithm: Algorithm, limit: Limit, steps: &[Step]) -> Result<(), TestCaseError> {
    let subject = Subject::memory(algorithm, limit);
    let window = u128::from(limit.window_us());
    let mut model = Model { limit, charges: Vec::new(), refunded: Vec::new() };
    let mut tickets = Vec::new();
    let mut now = 0_u64;
    // Whether the bucket is what the model says, and not fuller for a refund that was less than it
    // could be.
    let mut exact = true;
    for step in steps {
        match *step {
            Step::Pass(by) => {
                subject.pass(by);
                now += by;
            }
            Step::Charge(cost) => {
                let request = subject.request().with_cost(cost.min(limit.capacity()));
                let verdict = subject.store.acquire(request).await.unwrap();
                if verdict.allowed {
                    model.charges.push((now, request.cost()));
                    model.refunded.push(false);
                    tickets.push(verdict.ticket);
                }
            }
            Step::Refund(back) => {
                let open: Vec<usize> = (0..tickets.len()).filter(|index| !model.refunded[*index]).collect();
                let Some(&index) = open.len().checked_sub(back + 1).and_then(|at| open.get(at)) else { continue };
                let (time, cost) = model.charges[index];
                let newest = model.charges.iter().map(|(time, _)| *time).max() == Some(time);
                // A charge of the last window, in a bucket that held the cost for two windows,
                // beside all that was given back.
                let back: u64 =
                    model.charges.iter().zip(&model.refunded).filter(|(_, done)| **done).map(|(c, _)| c.1).sum();
                let recent = now - time <= limit.window_us()
                    && model.lowest_from(now, time.saturating_sub(2 * limit.window_us()))
                        >= u128::from(cost + back) * window
                    && exact;
                let request = subject.request().with_cost(cost);
                let before = subject.store.peek(subject.request()).await.unwrap().reset_after_us;
                subject.store.refund(request, tickets[index]).await.unwrap();
                let after = subject.store.peek(subject.request()).await.unwrap().reset_after_us;
                let could = model.replay(now, index).1.min(u128::from(cost) * window);
                model.refunded[index] = true;
                let given = before - after;
                let most = model.reset_after(could);
                if exact {
                    prop_assert!(given <= most, "{algorithm:?}: {given} us given back of {most}");
                    if newest || recent {
                        prop_assert!(given + 1 >= most, "{algorithm:?}: {given} us given back, not {most}");
                    }
                }
                exact = exact && after == model.reset_after(model.replay(now, 0).0);
            }
        }
        // Never emptier than if what was refunded had never come.
        let verdict = subject.store.peek(subject.request()).await.unwrap();
        let (level, _) = model.replay(now, 0);
        prop_assert!(verdict.reset_after_us >= model.reset_after(level), "{algorithm:?}: {verdict:?}, {level}");
        let most = u128::from(limit.capacity()).saturating_sub(level.div_ceil(window));
        prop_assert!(u128::from(verdict.remaining) <= most, "{algorithm:?}: {verdict:?}, {most}");
        if exact {
            prop_assert_eq!(verdict.reset_after_us, model.reset_after(level), "{:?}", algorithm);
        }
    }
    Ok(())
}

/// A rollback on a busy bucket: others were charged in between, and as much was refilled as the
/// call cost.
#[tokio::test]
async fn a_refund_on_a_busy_bucket_gives_back_all_of_it() {
    for &algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.has_burst()) {
        for subject in [Subject::memory(algorithm, per(1_000, SECOND)), Subject::redis(algorithm, per(1_000, SECOND))] {
            assert!(subject.store.acquire(subject.request().with_cost(500)).await.unwrap().allowed);
            let charged = subject.store.acquire(subject.request()).await.unwrap();
            for _ in 0..3 {
                subject.pass(10_000);
                assert!(subject.store.acquire(subject.request()).await.unwrap().allowed);
            }
            let left = subject.store.peek(subject.request()).await.unwrap().remaining;
            assert!(subject.store.refund(subject.request(), charged.ticket).await.unwrap(), "{}", subject.what());
            assert_eq!(subject.store.peek(subject.request()).await.unwrap().remaining, left + 1, "{}", subject.what());
        }
    }
}

/// What was charged at a fast rate is not given back at a slow one.
#[tokio::test]
async fn a_refund_under_another_max_gives_back_no_more_than_was_charged() {
    for store in [Subject::memory, Subject::redis] {
        let fast = store(Algorithm::LeakyBucket, per(1_000, SECOND));
        let charged = fast.store.acquire(fast.request()).await.unwrap();
        let slow = [per(10, SECOND)];
        let request = Request::new(fast.key.as_bytes(), Algorithm::LeakyBucket, &slow).with_cost(5);
        assert!(fast.store.acquire(request).await.unwrap().allowed);
        let before = fast.store.peek(request).await.unwrap().reset_after_us;
        let _ = fast.store.refund(request.with_cost(1), charged.ticket).await.unwrap();
        let after = fast.store.peek(request).await.unwrap().reset_after_us;
        assert!(before - after <= 100_000, "{}", fast.what());
        assert!(after >= 500_000 - 100_000, "{}", fast.what());
    }
}

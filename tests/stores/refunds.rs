//! Refunds of buckets, held against a model that keeps every charge: never more than if the call
//! had not come; where nothing was written since, all of that, else the cost less what has drained
//! since.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use ratelimit_runtime::{Algorithm, Limit, Store as _};

use crate::subject::{ALGORITHMS, Subject, per};

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
    now: u64,
    /// What the bucket holds by the rule of refunds, now.
    level: u128,
    /// The time of the newest charge or refund.
    newest: u64,
    charges: Vec<Charge>,
}

struct Charge {
    time: u64,
    cost: u64,
    ticket: u64,
    is_refunded: bool,
}

impl Model {
    fn drained(&self, time: u64) -> u128 {
        u128::from(time) * u128::from(self.limit.max())
    }

    fn weight(&self, charge: &Charge) -> u128 {
        u128::from(charge.cost) * self.limit.window().as_micros()
    }

    fn pass(&mut self, time: u64) {
        self.level = self.level.saturating_sub(self.drained(time));
        self.now += time;
    }

    fn charge(&mut self, cost: u64, ticket: u64) {
        let charge = Charge { time: self.now, cost, ticket, is_refunded: false };
        self.level += self.weight(&charge);
        self.newest = self.now;
        self.charges.push(charge);
    }

    /// Refunds one of the charges that were not, counted from the newest; says which.
    fn refund(&mut self, back: usize) -> Option<&Charge> {
        let index = (0..self.charges.len()).rev().filter(|index| !self.charges[*index].is_refunded).nth(back)?;
        self.charges[index].is_refunded = true;
        let charge = &self.charges[index];
        let drained = if charge.time == self.newest { 0 } else { self.drained(self.now - charge.time) };
        let given = self.weight(charge).saturating_sub(drained).min(self.level);
        self.level -= given;
        if given > 0 {
            self.newest = self.now;
        }
        self.charges.get(index)
    }

    /// The level now, as if what was refunded had never come.
    fn level_without(&self) -> u128 {
        let (mut level, mut at) = (0_u128, 0);
        for charge in self.charges.iter().filter(|charge| !charge.is_refunded) {
            level = level.saturating_sub(self.drained(charge.time - at)) + self.weight(charge);
            at = charge.time;
        }
        level.saturating_sub(self.drained(self.now - at))
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
    let mut model = Model { limit, now: 0, level: 0, newest: 0, charges: Vec::new() };
    for step in steps {
        match *step {
            Step::Pass(by) => {
                subject.pass(by);
                model.pass(by);
            }
            Step::Charge(cost) => {
                let request = subject.request().with_cost(cost.min(limit.capacity()));
                let verdict = subject.store.acquire(request).await.unwrap();
                if verdict.allowed {
                    model.charge(request.cost(), verdict.ticket);
                }
            }
            Step::Refund(back) => {
                let before = model.level;
                let Some(&Charge { cost, ticket, .. }) = model.refund(back) else { continue };
                let given = subject.store.refund(subject.request().with_cost(cost), ticket).await.unwrap();
                prop_assert_eq!(given, model.level < before, "{:?}", algorithm);
            }
        }
        prop_assert!(model.level >= model.level_without(), "{algorithm:?}: more is free than had the calls not come");
        let verdict = subject.store.peek(subject.request()).await.unwrap();
        let (max, window) = (u128::from(limit.max()), limit.window().as_micros());
        prop_assert_eq!(u128::from(verdict.reset_after_us), model.level.div_ceil(max), "{:?}", algorithm);
        let left = u128::from(limit.capacity()) - model.level.div_ceil(window);
        prop_assert_eq!(u128::from(verdict.remaining), left, "{:?}", algorithm);
    }
    Ok(())
}

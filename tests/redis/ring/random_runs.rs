//! Random calls on a ring: the same answers as the memory store. `RATELIMIT_TEST_CASES` chooses how
//! many runs there are.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::{Limit, Store};

use super::{Admitted, MINUTE, Pair, per};

#[derive(Debug, Clone)]
enum Step {
    Calls {
        count: u64,
        cost: u64,
        apart: u64,
        held: bool,
        block: bool,
        max: usize,
    },
    Peek {
        cost: u64,
        max: usize,
    },
    /// Gives back or settles admissions: of all that there were, from a place on, every so many.
    Refund {
        from: usize,
        every: usize,
        count: usize,
    },
    Commit {
        from: usize,
        every: usize,
        count: usize,
    },
    Block {
        micros: u64,
    },
    Unblock,
    Reset,
    /// In thousandths of the longest window.
    Pass {
        part: u64,
    },
}

#[derive(Debug, Clone)]
struct Shape {
    /// The maxima each limit may be asked with, and its window.
    limits: Vec<(Vec<u64>, u64)>,
}

impl Shape {
    fn limits(&self, max: usize) -> Vec<Limit> {
        self.limits.iter().map(|(maxima, window)| per(maxima[max % maxima.len()], *window)).collect()
    }

    fn longest(&self) -> u64 {
        self.limits.iter().map(|(_, window)| *window).max().unwrap()
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let max = prop_oneof![3 => 1_u64..40, 4 => 200_u64..2500, 1 => Just(Limit::MAX_COUNT), 1 => 1_u64 << 31..1 << 33];
    // The keys expire on the server's clock, which must not overtake the test.
    let window = prop_oneof![Just(MINUTE), Just(86_400_000_000), 20_000_000_u64..100_000_000];
    let limit = (prop::collection::vec(max, 1..3), window);
    prop::collection::vec(limit, 1..4).prop_map(|limits| Shape { limits })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost = || prop_oneof![6 => Just(1_u64), 2 => 0_u64..6, 1 => 1_u64..3000, 1 => (1_u64 << 31) - 1..1 << 32];
    let count = prop_oneof![2 => 1_u64..4, 1 => 1_u64..40, 2 => 100_u64..600];
    let apart = prop_oneof![2 => Just(0_u64), 2 => Just(1_u64), 2 => 1_u64..10_000, 1 => 1_u64..400_000];
    let some = || (0_usize..3000, 1_usize..4, prop_oneof![2 => 1_usize..3, 1 => 1_usize..400]);
    let step = prop_oneof![
        12 => (count, cost(), apart, any::<bool>(), prop::bool::weighted(0.1), 0_usize..3)
            .prop_map(|(count, cost, apart, held, block, max)| Step::Calls { count, cost, apart, held, block, max }),
        4 => (cost(), 0_usize..3).prop_map(|(cost, max)| Step::Peek { cost, max }),
        4 => some().prop_map(|(from, every, count)| Step::Refund { from, every, count }),
        3 => some().prop_map(|(from, every, count)| Step::Commit { from, every, count }),
        1 => (1_u64..3_000_000).prop_map(|micros| Step::Block { micros }),
        1 => Just(Step::Unblock),
        1 => Just(Step::Reset),
        6 => prop_oneof![4 => 0_u64..600, 1 => 990_u64..1100].prop_map(|part| Step::Pass { part }),
    ];
    prop::collection::vec(step, 1..40)
}

async fn play(shape: &Shape, steps: &[Step]) {
    let mut pair = Pair::new().await;
    let mut admitted: Vec<Admitted> = Vec::new();
    for step in steps {
        let limits = shape.limits(0);
        match *step {
            Step::Calls { count, cost, apart, held, block, max } => {
                let limits = shape.limits(max);
                let cost = cost.min(limits.iter().map(Limit::max).min().unwrap());
                let mut refused = 0;
                for _ in 0..count {
                    let block = if block { 1_500_000 } else { 0 };
                    let (verdict, this) = pair.call(&limits, cost, held, block).await;
                    if let Some(this) = this {
                        admitted.push(this);
                    }
                    pair.pass(apart);
                    // After that, a crowd of refusals is more of the same.
                    refused += u64::from(!verdict.allowed);
                    if refused > 10 {
                        break;
                    }
                }
            }
            Step::Peek { cost, max } => {
                let limits = shape.limits(max);
                let cost = cost.min(limits.iter().map(Limit::max).min().unwrap());
                let _ = pair.peek(&limits, cost).await;
            }
            Step::Refund { from, every, count } | Step::Commit { from, every, count } if !admitted.is_empty() => {
                let chosen = admitted.iter().skip(from % admitted.len()).step_by(every).take(count);
                for &one in chosen {
                    if matches!(step, Step::Refund { .. }) {
                        pair.refund(&limits, one).await;
                    } else if one.held {
                        pair.commit(&limits, one).await;
                    }
                }
            }
            Step::Refund { .. } | Step::Commit { .. } => {}
            Step::Block { micros } => {
                let micros = Duration::from_micros(micros);
                pair.memory.block(pair.request(&limits), micros).await.unwrap();
                pair.redis.block(pair.request(&limits), micros).await.unwrap();
            }
            Step::Unblock => {
                let ours = pair.memory.unblock(pair.request(&limits)).await.unwrap();
                assert_eq!(pair.redis.unblock(pair.request(&limits)).await.unwrap(), ours);
            }
            Step::Reset => {
                pair.memory.reset(pair.request(&limits)).await.unwrap();
                pair.redis.reset(pair.request(&limits)).await.unwrap();
                admitted.clear();
                pair.newest = 0;
            }
            Step::Pass { part } => pair.pass(shape.longest() / 1000 * part),
        }
    }
    for cost in [0, 1] {
        let _ = pair.peek(&shape.limits(0), cost).await;
    }
}

#[test]
fn random_runs_are_as_in_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = std::env::var("RATELIMIT_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(shapes(), steps()), |(shape, steps)| {
        runtime.block_on(play(&shape, &steps));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

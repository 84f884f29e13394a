//! Reservations that are committed at what a call did cost.

use std::collections::VecDeque;
use std::time::Duration;

use crate::bench::{Bench, MINUTE, SECOND, answered, is_log, micros};
use crate::random::Random;
use crate::reference::Reference;
use crate::test_key::TestKey;
use ratelimit_runtime::store::Feature;
use ratelimit_runtime::{Algorithm, Limit};

/// After a commit at most twice of what a limit admits at once is used of it, and the store says
/// what it left out.
pub(crate) async fn a_debt_is_bounded(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 10);
    let (first, second) = (
        bucket.reserve_estimate(4).await,
        bucket.reserve_estimate(6).await,
    );
    let most = Limit::MAX_COUNT;
    assert_eq!(
        bucket.commit_actual(4, first.ticket, most).await,
        most - 14,
        "6 of 20 are reserved"
    );
    assert_eq!(
        bucket.commit_actual(6, second.ticket, 7).await,
        1,
        "the estimate is charged, and no more"
    );
    let refused = bucket.refused(10).await;
    bucket.wait_out(&refused, 10).await;
    bucket.advance(2 * bucket.horizon());
    bucket.assert_whole().await;
}

/// An open estimate is a charge: what comes behind it waits as long, and is blocked as well.
pub(crate) async fn an_open_estimate_is_a_charge(bench: Bench, algorithm: Algorithm) {
    let (estimates, charges) = (
        bench.bucket("estimates", algorithm, 3),
        bench.bucket("charges", algorithm, 3),
    );
    for left in [2, 1, 0] {
        let reserved = estimates.reserve_estimate(1).await;
        assert!(
            reserved.allowed && reserved.remaining == left && reserved.ticket > 0,
            "{reserved:?}"
        );
        charges.admit(1).await;
    }
    let (refused, plain) = (estimates.refused(1).await, charges.refused(1).await);
    assert_eq!(refused.retry_after_us, plain.retry_after_us, "{refused:?}");
    let blocked = estimates.acquire_or_block(MINUTE * 10).await;
    assert!(
        blocked.blocked && blocked.remaining == 0 && blocked.retry_after() == Some(MINUTE * 10),
        "{blocked:?}"
    );
}

/// Calls that begin once a second, last five, and cost a tenth of their estimates: what each did
/// not cost is given back, whatever the others write meanwhile.
pub(crate) async fn estimates_that_overlap_are_given_back(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 100);
    let mut open = VecDeque::new();
    for _ in 0..40 {
        let verdict = bucket.reserve_estimate(10).await;
        assert!(verdict.allowed, "{verdict:?} with {} open", open.len());
        open.push_back(verdict.ticket);
        bucket.advance(SECOND);
        if open.len() == 5
            && let Some(ticket) = open.pop_front()
        {
            assert_eq!(bucket.commit_actual(10, ticket, 1).await, 0);
        }
    }
}

/// Of a bucket: calls at random, of which many are open, and late ones. What is left is never more
/// than if each had been charged when it began what it did cost.
pub(crate) async fn a_bucket_gives_back_no_more_than_was_not_used(
    bench: Bench,
    algorithm: Algorithm,
) {
    let mut random = Random(0xb0c);
    for nth in 0..if algorithm.has_burst() { KEYS } else { 0 } {
        let limit = Limit::new(
            random.within(20, 60),
            Duration::from_secs(random.within(5, 60)),
        );
        let period = micros(limit.window());
        let bucket = bench.bucket_under(&nth.to_string(), algorithm, &[limit]);
        let (mut charges, mut open) = (Vec::new(), Vec::<(usize, Reserved)>::new());
        for _ in 0..CALLS {
            let (cost, at) = (random.within(1, 20), bench.now());
            match random.within(0, 9) {
                0..=4 => {
                    let verdict = bucket.reserve_estimate(cost).await;
                    if verdict.allowed {
                        let (ticket, estimate) = (verdict.ticket, cost);
                        open.push((charges.len(), Reserved { ticket, estimate }));
                        charges.push((at, cost));
                    }
                }
                5 => {
                    if bucket.acquire(cost).await.allowed {
                        charges.push((at, cost));
                    }
                }
                6 => bucket.advance(Duration::from_micros(random.within(0, period * 3 / 2))),
                _ if open.is_empty() => {}
                _ => {
                    let which = random.within(0, open.len() as u64 - 1);
                    let (charge, Reserved { ticket, estimate }) =
                        open.swap_remove(usize::try_from(which).unwrap_or(0));
                    let actual = random.within(0, estimate + 3);
                    let dropped = bucket.commit_actual(estimate, ticket, actual).await;
                    let more = match charges.get_mut(charge) {
                        Some((_, counted)) if at < ticket + period => {
                            *counted = actual.min(estimate);
                            actual.saturating_sub(estimate)
                        }
                        _ => actual,
                    };
                    charges.push((at, more - dropped));
                }
            }
            bucket.advance(Duration::from_micros(random.within(0, period / 10)));
            let mut reference = Reference::new(algorithm);
            for (at, cost) in &charges {
                let _ = reference.charge(*at, limit, *cost);
            }
            let (left, most) = (
                bucket.remaining().await,
                reference.remaining(bench.now(), limit),
            );
            assert!(left <= most, "{left} of {most} left, with {open:?} open");
        }
    }
}

/// Where the window is over it is not known whether a settlement was there before: one that is sent
/// again changes nothing.
pub(crate) async fn a_settlement_that_is_sent_again_charges_nothing_anew(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 10);
    let reserved = bucket.reserve_estimate(5).await;
    bucket.advance(bucket.horizon());
    // A store may keep what is over a while longer.
    bucket.reset().await;
    let again = bucket.request(5).reserving_estimate().sent_again();
    let settled = answered(bench.store.settle(again, reserved.ticket, 7).await);
    assert_eq!((settled.was_open, settled.dropped), (false, 0));
    bucket.assert_whole().await;
    assert!(!bucket.reset().await, "it makes no key");
    assert_eq!(bucket.commit_actual(5, reserved.ticket, 7).await, 0);
    assert_eq!(bucket.remaining().await, 3, "the first time it is charged");
}

/// Of a sliding window: what was committed, released or reset is settled. A settlement that comes
/// after that, or once more, does nothing.
pub(crate) async fn a_settled_reservation_stays_settled(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 10);
    let mut tickets = Vec::new();
    for (actual, left) in [(2, 8), (3, 5), (0, 5), (1, 4)] {
        let ticket = bucket.reserve_estimate(2).await.ticket;
        assert!(bucket.settle_estimate(2, ticket, actual).await.was_open);
        assert_eq!(bucket.remaining().await, left);
        tickets.push(ticket);
    }
    for ticket in tickets {
        let settled = bucket.settle_estimate(2, ticket, 9).await;
        assert_eq!((settled.was_open, settled.dropped), (false, 0));
        assert_eq!(bucket.remaining().await, 4);
    }
    let forgotten = bucket.reserve_estimate(2).await.ticket;
    assert!(bucket.reset().await);
    let settled = bucket.settle_estimate(2, forgotten, 9).await;
    assert_eq!((settled.was_open, settled.dropped), (false, 0));
    bucket.assert_whole().await;
    assert!(!bucket.reset().await, "settling makes no key");
}

const KEYS: u64 = 20;
const CALLS: u64 = 80;

/// Estimates and truths at random, under one limit and two, late ones too: what is left, and what a
/// call is told, is what the model says. In a log they are settled in any order, elsewhere at once
/// or late: sums do not say when each was made.
pub(crate) async fn random_actual_costs_agree_with_the_model(bench: Bench, algorithm: Algorithm) {
    let several = bench.has(algorithm, Feature::Limits);
    let mut random = Random(0xac7);
    for nth in 0..KEYS {
        let count = if several { random.within(1, 2) } else { 1 };
        let limits: Vec<Limit> = (0..count)
            .map(|_| {
                let window = Duration::from_micros(random.within(5_000_000, 600_000_000));
                Limit::new(random.within(2, 60), window)
            })
            .collect();
        let bucket = bench.bucket_under(&nth.to_string(), algorithm, &limits);
        let references = vec![Reference::new(algorithm); limits.len()];
        let mut model = Model {
            bucket: &bucket,
            references,
            open: Vec::new(),
        };
        for _ in 0..CALLS {
            model.play(&mut random).await;
        }
    }
}

/// A reservation that is open.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    ticket: u64,
    estimate: u64,
}

/// What a key has to answer: a reference per limit. An open estimate is a charge.
struct Model<'a> {
    bucket: &'a TestKey<'a>,
    references: Vec<Reference>,
    /// Of a log alone.
    open: Vec<Reserved>,
}

impl Model<'_> {
    fn is_log(&self) -> bool {
        is_log(self.bucket.algorithm)
    }

    fn now(&self) -> u64 {
        self.bucket.bench.now()
    }

    fn limits(&self) -> impl Iterator<Item = (&Reference, Limit)> {
        self.references
            .iter()
            .zip(self.bucket.limits.iter().copied())
    }

    fn windows(&self) -> impl Iterator<Item = u64> {
        self.bucket
            .limits
            .iter()
            .map(|limit| micros(limit.window()))
    }

    fn charge(&mut self, costs: impl Fn(usize) -> u64) {
        let now = self.now();
        for (index, (reference, limit)) in self
            .references
            .iter_mut()
            .zip(&self.bucket.limits)
            .enumerate()
        {
            let _ = reference.charge(now, *limit, costs(index));
        }
    }

    async fn play(&mut self, random: &mut Random) {
        match random.within(0, 9) {
            0..=4 => self.call(random).await,
            5..=6 if !self.open.is_empty() => {
                let nth = random.within(0, self.open.len() as u64 - 1);
                let reserved = self.open.swap_remove(usize::try_from(nth).unwrap_or(0));
                // Where one limit has forgotten it and another has not, each goes by its own
                // window.
                let lasts = self.windows().min().unwrap_or(0);
                if self.now() < reserved.ticket + lasts {
                    self.settle(reserved, random).await;
                }
            }
            5..=8 => {
                let longest = self.windows().max().unwrap_or(1);
                self.bucket
                    .advance(Duration::from_micros(random.within(0, longest / 8)));
            }
            _ => {
                if let Some(late) = self.reserve(random.within(1, 2)).await {
                    self.bucket.advance(self.bucket.horizon() * 2);
                    self.settle(late, random).await;
                }
            }
        }
        let (now, verdict) = (self.now(), self.bucket.peek(1).await);
        let wait = self
            .limits()
            .map(|(reference, limit)| reference.wait(now, limit, 1))
            .max();
        let left = self
            .limits()
            .map(|(reference, limit)| reference.remaining(now, limit))
            .min();
        assert_eq!(
            Some(verdict.retry_after_us),
            wait,
            "{verdict:?} with {:?} open at {now}",
            self.open
        );
        if verdict.allowed {
            assert_eq!(
                Some(verdict.remaining),
                left,
                "{verdict:?} with {:?} open at {now}",
                self.open
            );
        }
    }

    /// A call that is charged, or one that reserves.
    async fn call(&mut self, random: &mut Random) {
        let most = self.bucket.limits.iter().map(Limit::max).min().unwrap_or(1);
        let (cost, reserves) = (random.within(1, most.div_ceil(2)), random.within(0, 3) > 0);
        if reserves {
            if let Some(reserved) = self.reserve(cost).await {
                if self.is_log() {
                    self.open.push(reserved);
                } else {
                    self.settle(reserved, random).await;
                }
            }
        } else if self.fits(cost) {
            self.bucket.admit(cost).await;
            self.charge(|_| cost);
        } else {
            self.bucket.refuse(cost).await;
        }
    }

    fn fits(&self, cost: u64) -> bool {
        self.limits()
            .all(|(reference, limit)| reference.wait(self.now(), limit, cost) == 0)
    }

    async fn reserve(&mut self, estimate: u64) -> Option<Reserved> {
        let (fits, verdict) = (
            self.fits(estimate),
            self.bucket.reserve_estimate(estimate).await,
        );
        assert_eq!(
            verdict.allowed,
            fits,
            "{verdict:?} with {:?} open at {}",
            self.open,
            self.now()
        );
        if !fits {
            return None;
        }
        self.charge(|_| estimate);
        Some(Reserved {
            ticket: verdict.ticket,
            estimate,
        })
    }

    /// What is too much is not charged: of a log to none of its limits, of the others to each limit
    /// by itself.
    async fn settle(&mut self, reserved: Reserved, random: &mut Random) {
        let (actual, now) = (random.within(0, 3 * reserved.estimate + 5), self.now());
        let horizon = micros(self.bucket.request(1).horizon());
        let is_over = reserved.ticket + reserved.estimate + horizon <= now;
        let less = if is_over {
            0
        } else {
            reserved.estimate.saturating_sub(actual)
        };
        let more = if is_over {
            actual
        } else {
            actual.saturating_sub(reserved.estimate)
        };
        for (reference, limit) in self
            .references
            .iter_mut()
            .zip(&self.bucket.limits)
            .filter(|_| less > 0)
        {
            reference.take_back(reserved.ticket, *limit, reserved.estimate, less);
        }
        let left = |(reference, limit): (&Reference, Limit)| {
            (2 * reference.capacity(limit))
                .min(Limit::MAX_COUNT)
                .saturating_sub(reference.used(now, limit))
        };
        let mut all_left: Vec<u64> = self.limits().map(left).collect();
        let least = all_left.iter().copied().min().unwrap_or(0);
        if self.is_log() {
            all_left.fill(least);
        }
        self.charge(|index| all_left.get(index).map_or(0, |left| more.min(*left)));
        let settled = self
            .bucket
            .settle_estimate(reserved.estimate, reserved.ticket, actual)
            .await;
        assert_eq!(
            settled.dropped,
            more.saturating_sub(least),
            "{reserved:?} was {actual}"
        );
        if self.is_log() {
            assert_eq!(settled.was_open, !is_over, "{reserved:?}");
        }
    }
}

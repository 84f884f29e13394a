//! Reservations that are committed at what a call did cost.

use std::time::Duration;

use crate::rule::{Algorithm, Limit};
use crate::store::Feature;
use crate::testkit::Reference;
use crate::testkit::conformance::bench::{Bench, SECOND};
use crate::testkit::conformance::random::Random;
use crate::testkit::conformance::test_key::TestKey;

/// What did cost less than its estimate frees the rest of it, what did cost more is charged on top.
pub(in crate::testkit::conformance) async fn an_actual_cost_replaces_the_estimate(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 20);
    for (estimate, actual, left) in [(5, 5, 15), (5, 2, 13), (5, 0, 13), (2, 6, 7)] {
        let reserved = bucket.reserve_estimate(estimate).await;
        assert!(reserved.allowed, "{reserved:?}");
        assert_eq!(bucket.commit_actual(estimate, reserved.ticket, actual).await, 0);
        assert_eq!(bucket.remaining().await, left, "{estimate} was estimated, and it was {actual}");
    }
    bucket.advance(bucket.horizon());
    bucket.assert_whole().await;
}

/// A cost beyond the limit is a debt: nothing is left, and what comes later waits for it.
pub(in crate::testkit::conformance) async fn a_debt_is_waited_for(bench: Bench, algorithm: Algorithm) {
    for cost in [1, 10] {
        let bucket = bench.bucket(&cost.to_string(), algorithm, 10);
        let reserved = bucket.reserve_estimate(4).await;
        assert_eq!(bucket.commit_actual(4, reserved.ticket, 15).await, 0);
        let refused = bucket.refused(cost).await;
        assert_eq!(refused.remaining, 0, "{refused:?}");
        bucket.wait_out(&refused, cost).await;
        bucket.admit(cost).await;
    }
}

/// After a commit at most twice of what a limit admits at once is used of it, and the store says
/// what it left out.
pub(in crate::testkit::conformance) async fn a_debt_is_bounded(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 10);
    let (first, second) = (bucket.reserve_estimate(4).await, bucket.reserve_estimate(6).await);
    let most = Limit::MAX_COUNT;
    assert_eq!(bucket.commit_actual(4, first.ticket, most).await, most - 14, "6 of 20 are reserved");
    assert_eq!(bucket.commit_actual(6, second.ticket, 7).await, 1, "the estimate is charged, and no more");
    let refused = bucket.refused(10).await;
    bucket.wait_out(&refused, 10).await;
    bucket.advance(2 * bucket.horizon());
    bucket.assert_whole().await;
}

/// A reservation that has left its window frees nothing: all of what the call did cost is charged
/// at its end.
pub(in crate::testkit::conformance) async fn a_long_call_is_not_free(bench: Bench, algorithm: Algorithm) {
    for (suffix, actual, left) in [("less", 3, 7), ("more", 9, 1), ("much", 25, 0), ("nothing", 0, 10)] {
        let bucket = bench.bucket(suffix, algorithm, 10);
        let reserved = bucket.reserve_estimate(5).await;
        bucket.advance(bucket.horizon());
        bucket.assert_whole().await;
        let dropped = bucket.commit_actual(5, reserved.ticket, actual).await;
        assert_eq!((dropped, bucket.remaining().await), (actual.saturating_sub(20), left), "it was {actual}");
        bucket.advance(2 * bucket.horizon());
        bucket.assert_whole().await;
    }
}

/// What was committed, released or reset is settled: a commit that comes after that, or once more,
/// does nothing.
pub(in crate::testkit::conformance) async fn what_is_over_stays_over(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 10);
    let committed = bucket.reserve_estimate(2).await.ticket;
    assert!(bucket.commit(2, committed).await);
    let corrected = bucket.reserve_estimate(2).await.ticket;
    assert_eq!(bucket.commit_actual(2, corrected, 3).await, 0);
    let released = bucket.reserve_estimate(2).await.ticket;
    assert!(bucket.release(2, released).await);
    for ticket in [committed, corrected, released] {
        assert_eq!(bucket.commit_actual(2, ticket, 9).await, 0);
        assert_eq!(bucket.remaining().await, 5);
    }
    let forgotten = bucket.reserve_estimate(2).await.ticket;
    assert!(bucket.reset().await);
    assert_eq!(bucket.commit_actual(2, forgotten, 9).await, 0);
    bucket.assert_whole().await;
    assert!(!bucket.reset().await, "settling makes no key");
}

const KEYS: u64 = 40;
const CALLS: u64 = 80;

/// Estimates and truths at random, under one limit and two, settled in any order, late ones too:
/// what is left, and what a call is told, is what the model says.
pub(in crate::testkit::conformance) async fn random_actual_costs_agree_with_the_model(
    bench: Bench,
    algorithm: Algorithm,
) {
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
        let mut model = Model::new(&bucket);
        for _ in 0..CALLS {
            model.play(&mut random).await;
        }
    }
}

/// A reservation that is open.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    at: u64,
    estimate: u64,
    ticket: u64,
}

/// What a key has to answer: a reference per limit, and what is reserved beside them. A log counts
/// what is reserved with its time, as if it were charged; the others in full until it ends.
struct Model<'a> {
    bucket: &'a TestKey<'a>,
    references: Vec<Reference>,
    open: Vec<Reserved>,
    /// How long what is reserved counts at least.
    span: u64,
}

impl<'a> Model<'a> {
    fn new(bucket: &'a TestKey<'a>) -> Self {
        let references = vec![Reference::new(bucket.algorithm); bucket.limits.len()];
        let span = bucket.request(1).demand().span();
        Self { bucket, references, open: Vec::new(), span }
    }

    fn is_log(&self) -> bool {
        self.bucket.algorithm.row().is_log
    }

    fn now(&self) -> u64 {
        self.bucket.bench.now()
    }

    /// What counts apart from what was charged.
    fn reserved(&self) -> u64 {
        if self.is_log() { 0 } else { self.open.iter().map(|reserved| reserved.estimate).sum() }
    }

    fn limits(&self) -> impl Iterator<Item = (&Reference, Limit)> {
        self.references.iter().zip(self.bucket.limits.iter().copied())
    }

    /// What is left of the limit with the least, and the longest wait of a call.
    fn expected(&self, cost: u64) -> (bool, u64) {
        let (now, reserved) = (self.now(), self.reserved());
        let fits = self.limits().all(|(reference, limit)| reference.wait(now, limit, cost + reserved) == 0);
        let left = self.limits().map(|(reference, limit)| reference.remaining(now, limit).saturating_sub(reserved));
        (fits, left.min().unwrap_or(0))
    }

    fn charge(&mut self, costs: impl Fn(&Reference, Limit) -> u64) {
        let now = self.now();
        for (reference, limit) in self.references.iter_mut().zip(&self.bucket.limits) {
            let cost = costs(reference, *limit);
            reference.charge(now, *limit, cost);
        }
    }

    async fn play(&mut self, random: &mut Random) {
        match random.within(0, 9) {
            0..=3 => self.call(random).await,
            4..=7 if !self.open.is_empty() => {
                let nth = random.within(0, self.open.len() as u64 - 1);
                let reserved = self.open.swap_remove(usize::try_from(nth).unwrap_or(0));
                self.complete(reserved, random).await;
            }
            4..=8 => self.pass(random.within(0, self.span / 8)),
            _ => self.late(random).await,
        }
        let (allowed, left) = self.expected(1);
        let verdict = self.bucket.peek(1).await;
        assert_eq!(verdict.allowed, allowed, "{verdict:?} with {:?} open at {}", self.open, self.now());
        if !allowed && self.open.is_empty() {
            let wait = self.limits().map(|(reference, limit)| reference.wait(self.now(), limit, 1)).max();
            assert_eq!(Some(verdict.retry_after_us), wait, "{verdict:?}");
        } else if allowed {
            assert_eq!(verdict.remaining, left, "{verdict:?} with {:?} open at {}", self.open, self.now());
        }
    }

    /// Lets time pass. Sums of reservations do not say when each was made: those end before a span
    /// has passed.
    fn pass(&mut self, by: u64) {
        let oldest = self.open.iter().map(|reserved| reserved.at).min();
        let until = oldest.filter(|_| !self.is_log()).map_or(u64::MAX, |at| at + self.span - 1);
        self.bucket.advance(Duration::from_micros(by.min(until.saturating_sub(self.now()))));
    }

    /// A call that reserves, or one that is charged.
    async fn call(&mut self, random: &mut Random) {
        let most = self.bucket.limits.iter().map(Limit::max).min().unwrap_or(1);
        let (cost, reserves) = (random.within(1, most.div_ceil(2)), random.within(0, 3) > 0);
        let expected = self.expected(cost);
        let verdict = if reserves { self.bucket.reserve_estimate(cost).await } else { self.bucket.acquire(cost).await };
        assert_eq!(verdict.allowed, expected.0, "{verdict:?} with {:?} open at {}", self.open, self.now());
        if verdict.allowed && reserves {
            self.bring_to_now();
            self.open.push(Reserved { at: self.now(), estimate: cost, ticket: verdict.ticket });
        }
        if verdict.allowed && (self.is_log() || !reserves) {
            self.charge(|_, _| cost);
        }
    }

    async fn complete(&mut self, reserved: Reserved, random: &mut Random) {
        let Reserved { at, estimate, ticket } = reserved;
        match random.within(0, 9) {
            0 => {
                let counts = self.counts(at, self.span);
                assert_eq!(self.bucket.commit(estimate, ticket).await, counts, "{reserved:?}");
                if counts && !self.is_log() {
                    self.charge(|_, _| estimate);
                }
            }
            1 => {
                let counts = self.counts(at, self.span);
                assert_eq!(self.bucket.release(estimate, ticket).await, counts, "{reserved:?}");
                self.lower(reserved, 0);
                if counts {
                    self.bring_to_now();
                }
            }
            _ => {
                let actual = random.within(0, 3 * estimate + 5);
                let dropped = self.bucket.commit_actual(estimate, ticket, actual).await;
                assert_eq!(dropped, self.commit_actual(reserved, actual), "{reserved:?} was {actual}");
            }
        }
    }

    /// A sliding counter begins its windows when a key is first written.
    fn bring_to_now(&mut self) {
        let now = self.now();
        for (reference, limit) in self.references.iter_mut().zip(&self.bucket.limits) {
            reference.bring_to(now, *limit);
        }
    }

    fn counts(&self, at: u64, window: u64) -> bool {
        self.now() < at + window
    }

    /// Changes what a reservation in a log weighs.
    fn lower(&mut self, reserved: Reserved, to: u64) {
        for reference in &mut self.references {
            reference.lower(reserved.at, reserved.estimate, to);
        }
    }

    fn commit_actual(&mut self, reserved: Reserved, actual: u64) -> u64 {
        let (now, open) = (self.now(), self.reserved());
        let free = move |reference: &Reference, limit: Limit, stays: u64| {
            (2 * reference.capacity(limit))
                .min(Limit::MAX_COUNT)
                .saturating_sub(reference.used(now, limit) + open + stays)
        };
        if self.is_log() {
            let stays = self.bucket.limits.iter().all(|limit| self.counts(reserved.at, limit.window_us()));
            let stays = if stays { actual.min(reserved.estimate) } else { 0 };
            self.lower(reserved, stays);
            let free = self.limits().map(|(reference, limit)| free(reference, limit, 0)).min().unwrap_or(0);
            self.charge(|_, _| (actual - stays).min(free));
            return (actual - stays).saturating_sub(free);
        }
        let stays = if self.counts(reserved.at, self.span) { actual.min(reserved.estimate) } else { 0 };
        let free = move |reference: &Reference, limit| free(reference, limit, stays);
        let frees: Vec<u64> = self.limits().map(|(reference, limit)| free(reference, limit)).collect();
        self.charge(|reference, limit| stays + (actual - stays).min(free(reference, limit)));
        let is_whole = self.limits().all(|(reference, limit)| reference.reset_after(now, limit) == 0);
        if is_whole && self.open.is_empty() {
            // Nothing of the key counts: its next call is a first one.
            self.references.fill(Reference::new(self.bucket.algorithm));
        } else if actual > 0 || self.counts(reserved.at, self.span) {
            self.bring_to_now();
        }
        frees.into_iter().map(|free| (actual - stays).saturating_sub(free)).max().unwrap_or(0)
    }

    /// A call that takes longer than all that is known of it.
    async fn late(&mut self, random: &mut Random) {
        let cost = random.within(1, 2);
        if !self.expected(cost).0 {
            return;
        }
        let verdict = self.bucket.reserve_estimate(cost).await;
        self.bring_to_now();
        let late = Reserved { at: self.now(), estimate: cost, ticket: verdict.ticket };
        if self.is_log() {
            self.charge(|_, _| cost);
        }
        while let Some(reserved) = self.open.pop() {
            self.complete_beside(reserved, late, random).await;
        }
        self.bucket.advance(Duration::from_micros(self.span) + SECOND);
        self.complete(late, random).await;
    }

    /// Settles one while another is open.
    async fn complete_beside(&mut self, reserved: Reserved, late: Reserved, random: &mut Random) {
        self.open.push(late);
        let last = self.open.len() - 1;
        self.complete(reserved, random).await;
        self.open.swap_remove(last);
    }
}

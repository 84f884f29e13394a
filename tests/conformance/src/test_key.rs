//! [`TestKey`]: one key under an algorithm, and what the cases do to it.

use std::time::Duration;

use crate::bench::{Bench, MICROSECOND, answered, capacity, is_log};
use ratelimit_runtime::store::{Request, Settled, Verdict};
use ratelimit_runtime::{Algorithm, Limit};

/// An unused key, and the limits that apply to its calls.
///
/// At one moment all algorithms do the same, and after [`horizon`](Self::horizon) nothing of it
/// counts any more; most cases need nothing else.
pub(crate) struct TestKey<'a> {
    pub(super) bench: &'a Bench,
    pub(super) algorithm: Algorithm,
    pub(super) limits: Vec<Limit>,
    key: Vec<u8>,
}

impl Bench {
    /// An unused key under `max` per minute.
    pub(crate) fn bucket(&self, suffix: &str, algorithm: Algorithm, max: u64) -> TestKey<'_> {
        self.bucket_under(suffix, algorithm, &[Limit::per_minute(max)])
    }

    pub(crate) fn bucket_under(
        &self,
        suffix: &str,
        algorithm: Algorithm,
        limits: &[Limit],
    ) -> TestKey<'_> {
        let key = self.key(format!("{suffix}:{algorithm:?}").as_bytes());
        TestKey {
            bench: self,
            algorithm,
            limits: limits.to_vec(),
            key,
        }
    }
}

impl TestKey<'_> {
    pub(crate) fn request(&self, cost: u64) -> Request<'_> {
        Request::new(&self.key, self.algorithm, &self.limits).with_cost(cost)
    }

    pub(crate) async fn acquire(&self, cost: u64) -> Verdict {
        answered(self.bench.store.acquire(self.request(cost)).await)
    }

    /// A call that has to be admitted.
    pub(crate) async fn admitted(&self, cost: u64) -> Verdict {
        let verdict = self.acquire(cost).await;
        assert!(
            verdict.allowed,
            "there is room for {cost} under {:?}: {verdict:?}",
            self.limits
        );
        assert_eq!(
            verdict.retry_after_us, 0,
            "what is admitted need not wait: {verdict:?}"
        );
        verdict
    }

    /// A call that has to be refused.
    pub(crate) async fn refused(&self, cost: u64) -> Verdict {
        let verdict = self.acquire(cost).await;
        assert!(
            !verdict.allowed,
            "there is no room for {cost} under {:?}: {verdict:?}",
            self.limits
        );
        assert!(
            verdict.retry_after_us > 0,
            "a refusal says how long it lasts: {verdict:?}"
        );
        verdict
    }

    pub(crate) async fn admit(&self, cost: u64) {
        let _ = self.admitted(cost).await;
    }

    pub(crate) async fn refuse(&self, cost: u64) {
        let _ = self.refused(cost).await;
    }

    /// A call that blocks the key if it is refused.
    pub(crate) async fn acquire_or_block(&self, block: Duration) -> Verdict {
        answered(
            self.bench
                .store
                .acquire(self.request(1).with_block(block))
                .await,
        )
    }

    pub(crate) async fn peek(&self, cost: u64) -> Verdict {
        answered(self.bench.store.peek(self.request(cost)).await)
    }

    pub(crate) async fn remaining(&self) -> u64 {
        self.peek(1).await.remaining
    }

    pub(crate) async fn refund(&self, cost: u64, ticket: u64) -> bool {
        answered(self.bench.store.refund(self.request(cost), ticket).await)
    }

    pub(crate) async fn reserve(&self, cost: u64) -> Verdict {
        answered(
            self.bench
                .store
                .acquire(self.request(cost).reserving())
                .await,
        )
    }

    pub(crate) async fn commit(&self, cost: u64, ticket: u64) -> bool {
        answered(
            self.bench
                .store
                .settle(self.request(cost).reserving(), ticket, cost)
                .await,
        )
        .was_open
    }

    pub(crate) async fn reserve_estimate(&self, cost: u64) -> Verdict {
        answered(
            self.bench
                .store
                .acquire(self.request(cost).reserving_estimate())
                .await,
        )
    }

    /// Gives what is not charged of the cost.
    pub(crate) async fn commit_actual(&self, cost: u64, ticket: u64, actual: u64) -> u64 {
        self.settle_estimate(cost, ticket, actual).await.dropped
    }

    pub(crate) async fn settle_estimate(&self, cost: u64, ticket: u64, actual: u64) -> Settled {
        answered(
            self.bench
                .store
                .settle(self.request(cost).reserving_estimate(), ticket, actual)
                .await,
        )
    }

    pub(crate) async fn release(&self, cost: u64, ticket: u64) -> bool {
        answered(
            self.bench
                .store
                .settle(self.request(cost).reserving(), ticket, 0)
                .await,
        )
        .was_open
    }

    pub(crate) async fn block(&self, block: Duration) {
        answered(self.bench.store.block(self.request(1), block).await);
    }

    pub(crate) async fn unblock(&self) -> bool {
        answered(self.bench.store.unblock(self.request(1)).await)
    }

    pub(crate) async fn reset(&self) -> bool {
        answered(self.bench.store.reset(self.request(1)).await)
    }

    /// The longest that anything written under the limits matters. In a log each unit of cost has
    /// a microsecond of its own, and no case uses more than a thousand at one moment.
    pub(crate) fn horizon(&self) -> Duration {
        let units = if is_log(self.algorithm) {
            MICROSECOND * 1_000
        } else {
            Duration::ZERO
        };
        self.request(1).horizon() + units
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.bench.clock.advance(by);
    }

    /// Waits as long as a refusal said: a microsecond earlier the call is still refused, and then
    /// it would be admitted.
    pub(crate) async fn wait_out(&self, refusal: &Verdict, cost: u64) {
        self.advance(Duration::from_micros(refusal.retry_after_us - 1));
        let early = self.peek(cost).await;
        assert!(
            !early.allowed && early.retry_after_us == 1,
            "{refusal:?}, and a microsecond early: {early:?}"
        );
        self.advance(MICROSECOND);
        let verdict = self.peek(cost).await;
        assert!(
            verdict.allowed,
            "{refusal:?}, and at that moment: {verdict:?}"
        );
    }

    /// Nothing is left of whatever was charged.
    pub(crate) async fn assert_whole(&self) {
        let verdict = self.peek(1).await;
        let most = self
            .limits
            .iter()
            .map(|limit| capacity(self.algorithm, limit))
            .min()
            .unwrap_or(0);
        assert!(verdict.allowed, "{verdict:?}");
        assert_eq!(
            (verdict.remaining, verdict.reset_after_us),
            (most, 0),
            "{verdict:?}"
        );
    }
}

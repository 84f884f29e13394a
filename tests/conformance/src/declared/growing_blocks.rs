//! Blocks that grow: what is an offence, how the next block doubles, and when that is forgotten.

use std::time::Duration;

use crate::bench::{Bench, HOUR, MINUTE, SECOND, answered, micros};
use crate::random::Random;
use crate::reference::Reference;
use crate::test_key::TestKey;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::{Algorithm, Limit};

const FIRST: Duration = MINUTE;
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// A key under a rule of one call per second whose block grows from one minute to ten.
struct Offender<'a>(TestKey<'a>);

impl<'a> Offender<'a> {
    fn new(bench: &'a Bench, algorithm: Algorithm, suffix: &str) -> Self {
        Self(bench.bucket_under(suffix, algorithm, &[Limit::new(1, SECOND)]))
    }

    fn request(&self) -> Request<'_> {
        self.0.request(1).with_growing_block(FIRST, LONGEST)
    }

    async fn acquire(&self) -> Verdict {
        answered(self.0.bench.store.acquire(self.request()).await)
    }

    /// Uses what the limit has, if there is any, and is refused: gives how long that blocks the
    /// key.
    async fn offend(&self) -> Duration {
        for _ in 0..2 {
            let verdict = self.acquire().await;
            if !verdict.allowed {
                assert!(verdict.blocked, "the refusal blocks: {verdict:?}");
                return verdict.retry_after().unwrap_or_default();
            }
        }
        Duration::ZERO
    }

    /// Offends, and lets the block pass.
    async fn serve(&self) -> Duration {
        let block = self.offend().await;
        self.0.advance(block);
        block
    }
}

/// Ending a block forgets the offences before it, as a reset does: also when no block lasts.
pub(crate) async fn unblock_and_reset_forget_offences(bench: Bench, algorithm: Algorithm) {
    let key = Offender::new(&bench, algorithm, "blocked");
    assert_eq!(
        [key.serve().await, key.offend().await],
        [MINUTE, MINUTE * 2]
    );
    assert!(key.0.unblock().await);
    assert!(!key.0.unblock().await);
    key.0.advance(MINUTE * 2);
    assert_eq!(key.serve().await, MINUTE, "the block was ended");
    assert_eq!(key.serve().await, MINUTE * 2);
    assert!(!key.0.unblock().await, "there is no block");
    assert_eq!(key.serve().await, MINUTE, "nor an offence");
    assert!(key.acquire().await.allowed);
    assert!(!key.0.unblock().await, "also after an admission");
    assert_eq!([key.serve().await, key.serve().await], [MINUTE, MINUTE * 2]);
    assert!(key.0.reset().await);
    assert_eq!(key.serve().await, MINUTE, "the key was reset");
}

/// A block by hand on a key without charges, under ranges of any length.
pub(crate) async fn a_block_by_hand_has_its_own_length(bench: Bench, algorithm: Algorithm) {
    for digits in 3..14 {
        let longest = Duration::from_micros(10_u64.pow(digits));
        let key = Offender::new(&bench, algorithm, &digits.to_string());
        let request = key.0.request(1).with_growing_block(longest / 2, longest);
        answered(bench.store.block(request, HOUR).await);
        let refused = answered(bench.store.acquire(request).await);
        assert!(
            refused.blocked && refused.retry_after() == Some(HOUR),
            "{longest:?}: {refused:?}"
        );
    }
    let key = Offender::new(&bench, algorithm, "shortest");
    answered(
        bench
            .store
            .block(key.request(), Duration::from_nanos(1))
            .await,
    );
    let refused = key.acquire().await;
    assert!(
        refused.blocked,
        "a block is rounded up to a microsecond: {refused:?}"
    );
}

/// A clock that is set back shortens no block and forgets no offence.
pub(crate) async fn a_clock_that_steps_back_forgets_no_offences(
    bench: Bench,
    algorithm: Algorithm,
) {
    let key = Offender::new(&bench, algorithm, "");
    assert_eq!(
        [key.serve().await, key.offend().await],
        [MINUTE, MINUTE * 2]
    );
    bench.clock.step_back(HOUR * 24);
    let left = key.serve().await;
    assert_eq!(left, HOUR * 24 + MINUTE * 2);
    for minutes in [4, 8, 10, 10] {
        assert_eq!(key.serve().await, MINUTE * minutes);
    }
}

/// The rule that asks says how long it blocks and remembers; one whose block does not grow counts
/// nothing.
pub(crate) async fn the_rule_that_asks_says_how_blocks_grow(bench: Bench, algorithm: Algorithm) {
    let key = Offender::new(&bench, algorithm, "range");
    assert_eq!([key.serve().await, key.serve().await], [MINUTE, MINUTE * 2]);
    let ask = async |request: Request<'_>| answered(bench.store.acquire(request).await);
    assert!(key.acquire().await.allowed);
    let longer = key.0.request(1).with_growing_block(SECOND * 3, HOUR);
    assert_eq!(ask(longer).await.retry_after(), Some(SECOND * 12));
    key.0.advance(SECOND * 12);
    assert_eq!(key.serve().await, MINUTE * 8);

    assert_eq!(key.serve().await, LONGEST);
    let fixed = key.0.request(1).with_block(MINUTE * 2);
    assert!(ask(fixed).await.allowed);
    assert_eq!(
        ask(fixed).await.retry_after(),
        Some(MINUTE * 2),
        "it does not grow"
    );
    key.0.advance(MINUTE * 2);
    assert_eq!(key.serve().await, LONGEST, "nor does it forget");
    assert!(ask(longer).await.allowed);
    let block = ask(longer).await.retry_after().unwrap_or_default();
    key.0.advance(block + LONGEST);
    assert_eq!(
        key.serve().await,
        MINUTE,
        "the one that asks says for how long they are remembered"
    );
}

/// What is charged in between, and all that has expired, leaves the offences as they are; a
/// reservation and a weight too, which may change how a log is kept.
pub(crate) async fn offences_survive_what_is_charged(bench: Bench, algorithm: Algorithm) {
    const MOST: u64 = 3;
    let bucket = bench.bucket_under("", algorithm, &[Limit::new(MOST, SECOND)]);
    let longest = HOUR * 24;
    let ask = async |cost| {
        let request = bucket.request(cost).with_growing_block(FIRST, longest);
        answered(bench.store.acquire(request).await)
    };
    let mut block = FIRST;
    for round in 0..4_u64 {
        for _ in 0..MOST {
            assert!(ask(1).await.allowed);
        }
        assert_eq!(ask(1).await.retry_after(), Some(block), "round {round}");
        bucket.advance(block);
        block *= 2;
        if round % 2 == 0 && bench.takes(algorithm, 2).await {
            assert!(ask(2).await.allowed);
        } else {
            assert!(ask(1).await.allowed);
        }
        // All of it expires, and the next admission begins anew.
        bucket.advance(bucket.horizon() * 3);
    }
}

/// Random calls, blocks and moments, against the words of the contract.
pub(crate) async fn random_offences_agree_with_the_model(bench: Bench, algorithm: Algorithm) {
    let mut random = Random(0xb10c);
    for run in 0..12 {
        let limit = Limit::new(
            random.within(1, 3),
            Duration::from_micros(random.within(1_000, 5_000_000)),
        );
        let bucket = bench.bucket_under(&run.to_string(), algorithm, &[limit]);
        let first = Duration::from_micros(random.within(1, 3_000_000));
        let longest = first + Duration::from_micros(random.within(1, 40_000_000));
        let growing = (micros(first), micros(longest));
        let mut model = Offences {
            growing,
            limit,
            used: Reference::new(algorithm),
            until: 0,
            strikes: 0,
        };
        let request = || bucket.request(1).with_growing_block(first, longest);
        for step in 0..60 {
            let context = format!("step {step} of run {run} under {limit:?}, {growing:?}");
            let now = bench.now();
            match random.within(0, 9) {
                0..5 => {
                    let verdict = answered(bench.store.acquire(request()).await);
                    let said = (verdict.allowed, verdict.blocked, verdict.retry_after_us);
                    assert_eq!(said, model.acquire(now), "{context}");
                }
                5 => {
                    let verdict = answered(bench.store.peek(request()).await);
                    let said = (verdict.allowed, verdict.blocked, verdict.retry_after_us);
                    assert_eq!(said, model.said(now), "{context}");
                }
                6 if random.within(0, 3) == 0 => {
                    let block = Duration::from_micros(random.within(1, 9_000_000));
                    answered(bench.store.block(request(), block).await);
                    model.block(now, micros(block));
                }
                7 if random.within(0, 5) == 0 => {
                    let was = answered(bench.store.unblock(request()).await);
                    assert_eq!(was, now < model.until, "{context}");
                    (model.until, model.strikes) = (0, 0);
                }
                _ => {
                    let to_the_end = model.until.saturating_sub(now);
                    let forgotten = to_the_end + growing.1;
                    let step = match random.within(0, 4) {
                        0 => to_the_end,
                        1 => to_the_end.saturating_sub(1),
                        2 => forgotten,
                        3 => forgotten - 1,
                        _ => random.within(1, 4_000_000),
                    };
                    bucket.advance(Duration::from_micros(step));
                }
            }
        }
    }
}

/// What a store says of a key that has one limit, as naively as possible.
struct Offences {
    /// The first block and the longest, in microseconds.
    growing: (u64, u64),
    limit: Limit,
    used: Reference,
    /// The end of the last block.
    until: u64,
    strikes: u32,
}

impl Offences {
    fn said(&self, now: u64) -> (bool, bool, u64) {
        let (waits, blocked) = (
            self.used.wait(now, self.limit, 1),
            self.until.saturating_sub(now),
        );
        (waits == 0 && blocked == 0, blocked > 0, waits.max(blocked))
    }

    fn acquire(&mut self, now: u64) -> (bool, bool, u64) {
        match self.said(now) {
            (true, ..) => _ = self.used.charge(now, self.limit, 1),
            (false, false, _) => {
                self.forget(now);
                let doubled = u128::from(self.growing.0) << self.strikes.min(60);
                let block = doubled.min(u128::from(self.growing.1));
                self.until = now + u64::try_from(block).unwrap_or(u64::MAX);
                self.strikes += 1;
                return self.said(now);
            }
            refused => return refused,
        }
        (true, false, 0)
    }

    fn block(&mut self, now: u64, block: u64) {
        self.forget(now);
        self.until = now + block;
    }

    fn forget(&mut self, now: u64) {
        if now >= self.until + self.growing.1 {
            self.strikes = 0;
        }
    }
}

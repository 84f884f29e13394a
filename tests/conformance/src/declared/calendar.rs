//! Calendar quotas, which fixed windows alone may have. Their periods are computed by the runtime;
//! here a store is held to them where they are plain arithmetic.

use std::time::Duration;

use ratelimit_runtime::{Algorithm, Limit};

use crate::bench::{Bench, HOUR, MICROSECOND, SECOND};
use crate::random::Random;
use crate::test_key::TestKey;

const HOUR_US: u64 = 3_600_000_000;

/// A unit whose periods are all of one length, in a zone that is always as far ahead of UTC.
#[derive(Debug, Clone, Copy)]
struct Unit {
    quota: &'static str,
    length: u64,
    /// How long after 1970 a period began.
    begins: u64,
}

// Asia/Kathmandu is 5 hours and 45 minutes ahead; 1970 began on a Thursday.
const HOURS: Unit = Unit {
    quota: "hour@Asia/Kathmandu",
    length: HOUR_US,
    begins: HOUR_US / 4,
};
const DAYS: Unit = Unit {
    quota: "day@UTC",
    length: 24 * HOUR_US,
    begins: 0,
};
const UNITS: [Unit; 4] = [
    HOURS,
    DAYS,
    Unit {
        quota: "day@Asia/Kathmandu",
        length: 24 * HOUR_US,
        begins: 18 * HOUR_US + HOUR_US / 4,
    },
    Unit {
        quota: "week@UTC",
        length: 7 * 24 * HOUR_US,
        begins: 4 * 24 * HOUR_US,
    },
];

impl Unit {
    fn limit(self, max: u64) -> Limit {
        #[allow(
            clippy::expect_used,
            reason = "the database has the zones of this file"
        )]
        format!("{max}/{}", self.quota).parse().expect("a quota")
    }

    /// When the period of a moment began, and when it ends.
    fn period(self, at: u64) -> (u64, u64) {
        let start = at - (at - self.begins) % self.length;
        (start, start + self.length)
    }
}

fn advance_to(bucket: &TestKey<'_>, moment: u64) {
    bucket.advance(Duration::from_micros(
        moment.saturating_sub(bucket.bench.now()),
    ));
}

/// What is used comes free when the unit ends, wherever in it the calls were.
pub(crate) async fn a_window_ends_with_its_unit(bench: Bench, algorithm: Algorithm) {
    for unit in UNITS {
        let bucket = bench.bucket_under(unit.quota, algorithm, &[unit.limit(2)]);
        for _ in 0..2 {
            bucket.admit(1).await;
            let (_, end) = unit.period(bench.now());
            bucket.advance(Duration::from_micros((end - bench.now()) / 2));
            bucket.admit(1).await;
            let refusal = bucket.refused(1).await;
            assert_eq!(refusal.retry_after_us, end - bench.now(), "{unit:?}");
            assert_eq!(refusal.reset_after_us, refusal.retry_after_us, "{unit:?}");
            bucket.wait_out(&refusal, 1).await;
            bucket.assert_whole().await;
        }
    }
}

/// A charge is given back as long as its window is the one that counts.
pub(crate) async fn a_refund_is_of_its_window(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket_under("", algorithm, &[DAYS.limit(3)]);
    let yesterday = bucket.admitted(2).await;
    advance_to(&bucket, DAYS.period(bench.now()).1);
    let today = bucket.admitted(2).await;
    assert!(
        !bucket.refund(2, yesterday.ticket).await,
        "it counts no more"
    );
    assert_eq!(bucket.remaining().await, 1);
    assert!(bucket.refund(2, today.ticket).await);
    assert_eq!(bucket.remaining().await, 3);
}

/// An estimate that is settled after midnight is charged to the day in which it is settled.
pub(crate) async fn a_settlement_is_of_the_day_in_which_it_comes(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket_under("", algorithm, &[DAYS.limit(10)]);
    let estimate = bucket.reserve_estimate(3).await;
    advance_to(&bucket, DAYS.period(bench.now()).1);
    assert_eq!(bucket.remaining().await, 10);
    assert_eq!(bucket.commit_actual(3, estimate.ticket, 4).await, 0);
    assert_eq!(bucket.remaining().await, 6);
}

/// A clock that is set back, over midnight or within a day, frees nothing; the window that was
/// begun goes on to its end, and no further.
pub(crate) async fn a_clock_set_back_frees_nothing(bench: Bench, algorithm: Algorithm) {
    let mixed = [DAYS.limit(2), Limit::new(9, SECOND)];
    let back = [
        (SECOND, SECOND + MICROSECOND),
        (SECOND, HOUR),
        (HOUR * 3, HOUR),
    ];
    for (nth, limits) in [&mixed[..1], &mixed[..]].into_iter().enumerate() {
        for (after_midnight, back) in back {
            let bucket = bench.bucket_under(
                &format!("{nth} {after_midnight:?} {back:?}"),
                algorithm,
                limits,
            );
            advance_to(&bucket, DAYS.period(bench.now()).1);
            let (_, end) = DAYS.period(bench.now());
            bucket.advance(after_midnight);
            bucket.admit(1).await;
            bench.clock.step_back(back);
            bucket.admit(1).await;
            bucket.refuse(1).await;
            advance_to(&bucket, end - 1);
            bucket.refuse(1).await;
            bucket.advance(MICROSECOND);
            bucket.assert_whole().await;
        }
    }
}

/// Random calls under several quotas agree with what was charged in each window.
pub(crate) async fn random_calls_agree_with_the_calendar(bench: Bench, algorithm: Algorithm) {
    let quotas = [(HOURS, 6), (DAYS, 60)];
    let limits = quotas.map(|(unit, max)| unit.limit(max));
    let bucket = bench.bucket_under("", algorithm, &limits);
    let mut random = Random(18_05);
    let mut charged: Vec<(u64, u64)> = Vec::new();
    for step in 0..400 {
        let (now, cost) = (bench.now(), random.within(1, 3));
        let standing = quotas.map(|(unit, max)| {
            let (start, end) = unit.period(now);
            let used: u64 = charged
                .iter()
                .filter(|(at, _)| *at >= start)
                .map(|(_, cost)| cost)
                .sum();
            (if used + cost > max { end - now } else { 0 }, max - used)
        });
        let wait = standing.iter().map(|(wait, _)| *wait).max().unwrap_or(0);
        let verdict = bucket.acquire(cost).await;
        assert_eq!(
            (verdict.allowed, verdict.retry_after_us),
            (wait == 0, wait),
            "step {step}: {verdict:?}"
        );
        let left = standing
            .get(verdict.limit_index)
            .map(|(_, left)| left - if wait == 0 { cost } else { 0 });
        assert_eq!(Some(verdict.remaining), left, "step {step}: {verdict:?}");
        charged.extend((wait == 0).then_some((now, cost)));
        bucket.advance(Duration::from_secs(random.within(1, 2_500)));
    }
}

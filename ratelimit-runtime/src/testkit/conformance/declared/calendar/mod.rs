//! Calendar quotas, which fixed windows alone may have.

use std::time::Duration;

use crate::rule::{Algorithm, CalendarUnit, Limit};
use crate::testkit::conformance::bench::{Bench, HOUR, MICROSECOND, SECOND};
use crate::testkit::conformance::random::Random;
use crate::testkit::conformance::test_key::TestKey;

/// Zones whose days begin at other moments, one of which knows no whole hours.
const ZONES: [&str; 3] = ["UTC", "America/New_York", "Asia/Kathmandu"];

/// `max` in each unit, in a zone.
fn quota(max: u64, unit: CalendarUnit, zone: &str) -> Limit {
    #[allow(clippy::expect_used, reason = "the database has the zones of this file")]
    format!("{max}/{unit}@{zone}").parse().expect("a quota")
}

/// When the window of the limit began, and when it ends.
fn window(bucket: &TestKey<'_>, limit: usize) -> (u64, u64) {
    let now = bucket.bench.now();
    bucket.limits.get(limit).and_then(Limit::by_calendar).map_or((now, now), |calendar| {
        let period = calendar.period(now);
        (period.start, period.end)
    })
}

fn advance_to(bucket: &TestKey<'_>, moment: u64) {
    bucket.advance(Duration::from_micros(moment.saturating_sub(bucket.bench.now())));
}

/// What is used comes free when the unit ends, wherever in it the calls were.
pub(in crate::testkit::conformance) async fn a_window_ends_with_its_unit(bench: Bench, algorithm: Algorithm) {
    for (zone, unit) in ZONES.iter().flat_map(|zone| CalendarUnit::ALL.iter().map(move |unit| (zone, *unit))) {
        let bucket = bench.bucket_under(&format!("{zone}{unit}"), algorithm, &[quota(2, unit, zone)]);
        for _ in 0..2 {
            bucket.admit(1).await;
            let (_, end) = window(&bucket, 0);
            let half = (end - bucket.bench.now()) / 2;
            bucket.advance(Duration::from_micros(half));
            bucket.admit(1).await;
            let refusal = bucket.refused(1).await;
            assert_eq!(refusal.retry_after_us, end - bucket.bench.now(), "{unit} in {zone}");
            assert_eq!(refusal.reset_after_us, refusal.retry_after_us, "{unit} in {zone}");
            bucket.wait_out(&refusal, 1).await;
            assert_eq!(bucket.bench.now(), end, "{unit} in {zone}");
            bucket.assert_whole().await;
        }
    }
}

/// A charge is given back as long as its window is the one that counts.
pub(in crate::testkit::conformance) async fn a_refund_is_of_its_window(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket_under("", algorithm, &[quota(3, CalendarUnit::Day, "America/New_York")]);
    let yesterday = bucket.admitted(2).await;
    advance_to(&bucket, window(&bucket, 0).1);
    let today = bucket.admitted(2).await;
    assert!(!bucket.refund(2, yesterday.ticket).await, "it counts no more");
    assert_eq!(bucket.remaining().await, 1);
    assert!(bucket.refund(2, today.ticket).await);
    assert_eq!(bucket.remaining().await, 3);
}

/// A clock that is set back over midnight frees nothing, and the window that was begun goes on to
/// its end.
pub(in crate::testkit::conformance) async fn a_clock_set_back_over_midnight_frees_nothing(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket_under("", algorithm, &[quota(2, CalendarUnit::Day, "America/New_York")]);
    advance_to(&bucket, window(&bucket, 0).1);
    bucket.advance(SECOND);
    let (_, end) = window(&bucket, 0);
    bucket.admit(2).await;
    for back in [SECOND + MICROSECOND, HOUR] {
        bucket.bench.clock.step_back(back);
        bucket.refuse(1).await;
    }
    advance_to(&bucket, end - 1);
    bucket.refuse(1).await;
    bucket.advance(MICROSECOND);
    bucket.assert_whole().await;
}

/// What is admitted while the clock is back counts until the window ends by the clock, and not for
/// as long as it would from where the clock had been.
pub(in crate::testkit::conformance) async fn a_clock_set_back_within_a_day_frees_nothing(
    bench: Bench,
    algorithm: Algorithm,
) {
    let day = quota(2, CalendarUnit::Day, "America/New_York");
    let mixed = [day, Limit::new(9, SECOND)];
    for (name, limits) in [("alone", &mixed[..1]), ("beside", &mixed[..])] {
        let bucket = bench.bucket_under(name, algorithm, limits);
        advance_to(&bucket, window(&bucket, 0).1);
        let (_, end) = window(&bucket, 0);
        bucket.advance(3 * HOUR);
        bucket.admit(1).await;
        bucket.bench.clock.step_back(HOUR);
        bucket.admit(1).await;
        advance_to(&bucket, end - 1);
        bucket.refuse(1).await;
        bucket.advance(MICROSECOND);
        bucket.assert_whole().await;
    }
}

/// Random calls under several quotas, and a limit by the clock beside them, agree with what was
/// charged in each window.
pub(in crate::testkit::conformance) async fn random_calls_agree_with_the_calendar(bench: Bench, algorithm: Algorithm) {
    let limits = [
        quota(6, CalendarUnit::Hour, "Asia/Kathmandu"),
        quota(20, CalendarUnit::Day, "America/New_York"),
        quota(90, CalendarUnit::Month, "UTC"),
    ];
    let mut random = Random(18_05);
    let bucket = bench.bucket_under("", algorithm, &limits);
    let mut charged: Vec<(u64, u64)> = Vec::new();
    let mut refused = [0; 3];
    for step in 0..600 {
        let (now, cost) = (bucket.bench.now(), random.within(1, 3));
        let verdict = bucket.acquire(cost).await;
        let mut wait = [0; 3];
        let mut left = [0; 3];
        for (index, (wait, left)) in wait.iter_mut().zip(&mut left).enumerate() {
            let (start, end) = window(&bucket, index);
            let used: u64 = charged.iter().filter(|(at, _)| *at >= start).map(|(_, cost)| cost).sum();
            let max = limits.get(index).map_or(0, Limit::max);
            *left = max - used;
            *wait = if used + cost > max { end - now } else { 0 };
        }
        let longest = wait.iter().copied().max().unwrap_or(0);
        assert_eq!((verdict.allowed, verdict.retry_after_us), (longest == 0, longest), "step {step}: {verdict:?}");
        let (index, allowed) = (verdict.limit_index, verdict.allowed);
        let expected = left.get(index).map(|left| if allowed { left - cost } else { *left });
        assert_eq!(Some(verdict.remaining), expected, "step {step}: {verdict:?}");
        if allowed {
            charged.push((now, cost));
        } else if let Some(refused) = refused.get_mut(index) {
            *refused += 1;
        }
        bucket.advance(Duration::from_secs(random.within(1, 2_500)));
    }
    assert!(refused.iter().all(|refused| *refused > 0), "each quota refuses something: {refused:?}");
}

//! Calendar quotas: 500 from midnight to midnight, by the attribute, by hand and by policies.

use std::time::{Duration, SystemTime};

use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Algorithm, CalendarUnit, Key, Limit, MemoryStore, Policy, RateLimitError, RateLimiter, Rule,
    rate_limit,
};

use crate::Outcome;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The evening before the last Sunday of October 2026, 22:00 in Berlin: a day of 25 hours follows.
fn evening() -> FakeClock {
    let clock = FakeClock::new();
    clock.set(SystemTime::UNIX_EPOCH + Duration::from_secs(1_792_872_000));
    clock
}

fn limiter(clock: &FakeClock) -> RateLimiter {
    RateLimiter::with_store(MemoryStore::new().with_clock(clock.clone()))
}

#[rate_limit(
    key = "<tenant>",
    limits = ["2/day", "3/month"],
    algorithm = "fixed_window",
    zone = "Europe/Berlin",
    name = "export"
)]
async fn export(tenant: &str) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_quota_is_whole_at_midnight_of_its_zone() {
    let clock = evening();
    let scenario = async {
        assert!(export("acme").await.is_ok() && export("acme").await.is_ok());
        let Err(RateLimitError::Exceeded(refused)) = export("acme").await else {
            panic!("two a day")
        };
        assert_eq!(
            refused.retry_after(),
            Some(2 * HOUR),
            "at midnight in Berlin"
        );
        clock.advance(2 * HOUR);
        assert!(export("acme").await.is_ok());
        // The month has three, and ends a week and an hour later: clocks are set back meanwhile.
        let Err(RateLimitError::Exceeded(refused)) = export("acme").await else {
            panic!("three a month")
        };
        assert_eq!(refused.retry_after(), Some((7 * 24 + 1) * HOUR));
        assert!(export("globex").await.is_ok());
    };
    limiter(&clock).scope(scenario).await;
}

/// By hand the quota is reached under its name.
#[tokio::test]
async fn a_rule_by_hand_shares_the_quota_of_the_attribute() {
    static EXPORT: Rule = Rule::new("export", Limit::calendar(2, CalendarUnit::Day))
        .and(Limit::calendar(3, CalendarUnit::Month))
        .with_algorithm(Algorithm::FixedWindow)
        .with_zone("europe/berlin");
    let limiter = limiter(&evening());
    limiter.scope(export("acme")).await.unwrap();
    let decision = limiter.peek(&EXPORT, &Key::of("acme")).await.unwrap();
    assert_eq!((decision.remaining(), decision.window()), (1, 24 * HOUR));
    assert_eq!(decision.reset_after(), 2 * HOUR);
    assert!(limiter.reset(&EXPORT, &Key::of("acme")).await.unwrap());
}

/// The attribute does not compile then.
#[tokio::test]
async fn a_zone_that_the_database_lacks_is_misconfigured_and_not_utc() {
    static MISSPELT: Rule = Rule::new("misspelt", Limit::calendar(1, CalendarUnit::Day))
        .with_algorithm(Algorithm::FixedWindow)
        .with_zone("Europe/Brelin");
    let limiter = limiter(&evening());
    for _ in 0..3 {
        let checked = limiter.acquire(&MISSPELT, &Key::of("acme")).await;
        let Err(RateLimitError::Misconfigured(error)) = checked else {
            panic!("no such zone")
        };
        assert!(
            error
                .to_string()
                .contains("unknown time zone `Europe/Brelin`"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn no_other_algorithm_takes_a_quota_for_a_time() {
    let limiter = limiter(&evening());
    for algorithm in ratelimit_conformance::ALGORITHMS
        .iter()
        .copied()
        .filter(|algorithm| *algorithm != Algorithm::FixedWindow)
    {
        let name = format!("other {algorithm}");
        let rule =
            Rule::named(name, Limit::calendar(2, CalendarUnit::Day)).with_algorithm(algorithm);
        let Err(RateLimitError::Misconfigured(error)) =
            limiter.acquire(&rule, &Key::global()).await
        else {
            panic!("{algorithm} keeps no calendar")
        };
        assert!(
            error.to_string().contains("`fixed_window` alone"),
            "{error}"
        );
    }
}

/// A user who writes `per_day` and a zone means a day of the calendar.
#[tokio::test]
async fn a_zone_beside_limits_without_a_calendar_is_misconfigured() {
    let limiter = limiter(&evening());
    let fixed = |limit: Limit| {
        Rule::named(limit.to_string(), limit)
            .with_algorithm(Algorithm::FixedWindow)
            .with_zone("Europe/Berlin")
    };
    let key = Key::of("acme");
    for rule in [
        fixed(Limit::per_day(5)),
        fixed(Limit::per_hour(5)).and(Limit::per_minute(1)),
    ] {
        for _ in 0..2 {
            let Err(RateLimitError::Misconfigured(error)) = limiter.acquire(&rule, &key).await
            else {
                panic!("a span")
            };
            assert!(
                error.to_string().contains("in code `Limit::calendar(500"),
                "{error}"
            );
        }
        assert!(limiter.reset(&rule, &key).await.is_err());
    }
    let beside = fixed(Limit::per_minute(1)).and(Limit::calendar(5, CalendarUnit::Day));
    assert!(limiter.acquire(&beside, &key).await.is_ok());
}

/// A clock that is set wrong does not make each call the first of a window.
#[tokio::test]
async fn a_clock_that_shows_a_time_beyond_the_calendar_admits_no_more() {
    const YEAR: u64 = 366 * 24 * 60 * 60;
    for (year, unit) in [200, 290, 9_000, u64::MAX / YEAR].iter().flat_map(|year| {
        // From 1970 on.
        CalendarUnit::ALL.iter().map(move |unit| (*year, *unit))
    }) {
        let clock = evening();
        clock.step_back(Duration::MAX);
        clock.advance(Duration::from_secs(year * YEAR));
        let limiter = limiter(&clock);
        let rule =
            Rule::named("late", Limit::calendar(2, unit)).with_algorithm(Algorithm::FixedWindow);
        let mut admitted = 0;
        for _ in 0..6 {
            admitted += u32::from(limiter.acquire(&rule, &Key::global()).await.is_ok());
            clock.advance(Duration::from_millis(1));
        }
        assert_eq!(admitted, 2, "{unit}, {year} years after 1970");
    }
}

#[rate_limit(key = "<tenant>", policy = "plan", zone = "Europe/Berlin")]
async fn planned(tenant: &str) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_policy_names_quota_and_zone() {
    let with = |policy: &str| policy.parse::<Policy>().unwrap();
    for (policy, midnight) in [
        ("fixed_window 1/day", 2 * HOUR),
        ("fixed_window 1/day zone America/New_York", 8 * HOUR),
        ("fixed_window 1/day@Asia/Tokyo", 19 * HOUR),
    ] {
        let store = MemoryStore::new().with_clock(evening());
        let limiter = RateLimiter::builder()
            .store(store)
            .policy("plan", with(policy))
            .build()
            .unwrap();
        limiter.scope(planned("acme")).await.unwrap();
        let Err(RateLimitError::Exceeded(refused)) = limiter.scope(planned("acme")).await else {
            panic!("one a day")
        };
        assert_eq!(refused.retry_after(), Some(midnight), "{policy}");
    }
}

#[test]
fn a_policy_that_no_calendar_can_keep_is_refused() {
    for (policy, part) in [
        ("5/day", "`5/day`, is kept by `fixed_window` alone"),
        (
            "5/day",
            "set the algorithm `fixed_window`, or write a length of time, such as `5/1d`",
        ),
        ("fixed_window 5/1d zone Europe/Berlin", "leave it out"),
        (
            "fixed_window 5/day zone Europe/Berlni",
            "unknown time zone `Europe/Berlni`: write a name of the tz database",
        ),
        (
            "fixed_window 5/day zone UTC\0",
            "unknown time zone `UTC\\0`",
        ),
        ("fixed_window 5/daily", "`daily` is not a duration"),
        ("fixed_window 5/day UTC", "unknown option `UTC`"),
        (
            "fixed_window 5/day zone localtime",
            "unknown time zone `localtime`",
        ),
        (
            "fixed_window 5/day zone ../../etc/passwd",
            "unknown time zone `../../etc/passwd`",
        ),
        ("fixed_window 5/day zone", "`zone` has no value"),
    ] {
        let error = policy.parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains(part), "{policy}: {error}");
    }
    let long = format!("fixed_window 5/day@{}", "A".repeat(1 << 20))
        .parse::<Policy>()
        .unwrap_err()
        .to_string();
    assert!(
        long.lines()
            .next()
            .is_some_and(|message| message.len() < 200)
    );
    let by_hand =
        Policy::new(Limit::calendar(5, CalendarUnit::Day)).with_algorithm(Algorithm::FixedWindow);
    let limiter = |policy| RateLimiter::builder().policy("plan", policy).build();
    assert!(limiter(by_hand.clone()).is_ok());
    assert!(limiter(by_hand.clone().with_zone("Europe/Brelin")).is_err());
    assert!(limiter(by_hand.with_algorithm(Algorithm::LeakyBucket)).is_err());
}

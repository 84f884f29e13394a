//! The table of `guide/algorithms.md` that says what works where: it is what the stores
//! declare, and tried cell by cell; and what that page says a key takes.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::support::redis::shared;
use crate::support::unique;
use ratelimit_runtime::__private::{PermitId, PlaceRequest};
use ratelimit_runtime::store::{Feature, Request, StoreError, StoreErrorKind};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Algorithm, CalendarUnit, Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, RedisMode,
    RedisStore, Rule, Store,
};

const PAGE: &str = include_str!("../../ratelimit-runtime/src/guide/algorithms.md");

/// The columns of the table: what a rule writes to ask for something, and the feature that a store
/// declares for it. What has none goes with the algorithm.
const COLUMNS: [(&str, Option<Feature>); 12] = [
    ("cost", None),
    ("limits", Some(Feature::Limits)),
    ("peek", None),
    ("reset", None),
    ("refund", Some(Feature::Refund)),
    ("wait", None),
    ("block", Some(Feature::Block)),
    ("growing block", Some(Feature::GrowingBlock)),
    ("count", Some(Feature::Reserve)),
    ("actual_cost", Some(Feature::ActualCost)),
    ("concurrent", Some(Feature::Concurrent)),
    ("calendar", Some(Feature::Calendar)),
];

const TIMEOUT: Duration = Duration::from_secs(30);

/// The stores of the table, by the names it gives them.
const STORES: [&str; 3] = ["memory", "Redis", "Redis without scripts"];

/// A store on a clock that stands still; without scripts, on the server's, because a fixed window
/// knows no other.
fn store(name: &str) -> Arc<dyn Store> {
    let clock = FakeClock::new();
    let store: Arc<dyn Store> = match name {
        "memory" => Arc::new(MemoryStore::new().with_clock(clock)),
        "Redis" => Arc::new(RedisStore::new(&shared().url()).unwrap().with_clock(clock)),
        "Redis without scripts" => Arc::new(RedisStore::new(&shared().url()).unwrap().mode(RedisMode::Transactions)),
        other => panic!("the table names an unknown store: {other}"),
    };
    // As a limiter tells it: each use connects anew, and a busy machine takes its time.
    store.own().answers_within(TIMEOUT);
    store
}

/// A limiter on a store of this name and its own clock.
fn limiter(name: &str) -> RateLimiter {
    let builder = RateLimiter::builder().timeout(TIMEOUT).on_unavailable(OnUnavailable::Deny);
    let builder = match name {
        "memory" => builder.store(MemoryStore::new()),
        "Redis" => builder.store(RedisStore::new(&shared().url()).unwrap()),
        "Redis without scripts" => {
            builder.store(RedisStore::new(&shared().url()).unwrap().mode(RedisMode::Transactions))
        }
        other => panic!("the table names an unknown store: {other}"),
    };
    builder.prefix(unique("capabilities")).build().unwrap()
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect()
}

fn table() -> impl Iterator<Item = Vec<&'static str>> {
    PAGE.lines()
        .skip_while(|line| !line.starts_with("| algorithm | store |"))
        .take_while(|line| line.starts_with('|'))
        .map(cells)
}

/// Every table of the page that has a row for algorithms has one for each, and what it says of
/// bursts is so.
#[test]
fn every_table_has_all_algorithms() {
    let all: BTreeSet<_> = ratelimit_conformance::ALGORITHMS.iter().map(ToString::to_string).collect();
    let mut tables = 0;
    let mut lines = PAGE.lines().peekable();
    while let Some(line) = lines.next() {
        let header = cells(line);
        if !line.starts_with('|') || !["algorithm", "take"].contains(&header[0]) {
            continue;
        }
        tables += 1;
        let mut listed = BTreeSet::new();
        while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
            let row = cells(row);
            // `fixed_window`, `sliding_counter`: one row for both.
            let algorithms = row[0].split('`').filter_map(|word| word.parse::<Algorithm>().ok());
            for algorithm in algorithms {
                listed.insert(algorithm.to_string());
                if let Some(at) = header.iter().position(|column| *column == "burst") {
                    assert_eq!(row[at], yes_or_no(algorithm.has_burst()), "a burst of {algorithm}");
                }
            }
        }
        assert_eq!(listed, all, "the table below {line}");
    }
    assert_eq!(tables, 6, "tables of algorithms");
    assert!(PAGE.contains("| algorithm | burst |"), "a table says which have a burst");
}

#[tokio::test]
async fn the_table_says_what_the_stores_declare_and_they_do_it() {
    let mut rows = table();
    let header = rows.next().unwrap();
    assert_eq!(header, [vec!["algorithm", "store"], COLUMNS.map(|(name, _)| name).to_vec()].concat());
    let mut seen = BTreeSet::new();
    for row in rows.skip(1) {
        let [algorithm, stores, claims @ ..] = row.as_slice() else { panic!("a short row: {row:?}") };
        let algorithm: Algorithm = algorithm.parse().unwrap();
        assert_eq!(claims.len(), COLUMNS.len(), "{row:?}");
        for store_name in stores.split(", ") {
            assert!(seen.insert((store_name, algorithm.to_string())), "{algorithm} on {store_name} twice");
            assert_claims(algorithm, store_name, claims).await;
        }
    }
    let all = STORES
        .into_iter()
        .flat_map(|store| ratelimit_conformance::ALGORITHMS.iter().map(move |it| (store, it.to_string())));
    assert_eq!(seen, all.collect(), "every algorithm on every store");
}

async fn assert_claims(algorithm: Algorithm, store_name: &str, claims: &[&str]) {
    let declared = store(store_name).capabilities();
    for (claim, (column, feature)) in claims.iter().zip(COLUMNS) {
        let declared = feature.map_or_else(
            || declared.supports_algorithm(algorithm),
            |feature| declared.supports_feature(algorithm, feature),
        );
        let context = format!("{column} under {algorithm} on {store_name}");
        assert_eq!(*claim, yes_or_no(declared), "{context}, as declared");
        let does = match try_out(store_name, algorithm, column).await {
            Ok(()) => true,
            Err(error) if error.kind() == StoreErrorKind::Unsupported => false,
            Err(error) => panic!("{context}: {error:?}"),
        };
        assert_eq!(*claim, yes_or_no(does), "{context}, as done");
    }
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// Uses the feature; it works, or the store says that it cannot. Anything else fails the test.
async fn try_out(store_name: &str, algorithm: Algorithm, feature: &str) -> Result<(), StoreError> {
    let store = store(store_name);
    let key = unique("capabilities");
    let limits = [Limit::per_minute(5), Limit::per_hour(3)];
    let limits = if feature == "limits" { limits.as_slice() } else { &limits[..1] };
    let one = Request::new(key.as_bytes(), algorithm, limits);
    match feature {
        "cost" => {
            assert_eq!(store.acquire(one.with_cost(3)).await?.remaining, 2);
            assert!(!store.acquire(one.with_cost(3)).await?.allowed);
        }
        "limits" => {
            for _ in 0..3 {
                assert!(store.acquire(one).await?.allowed);
            }
            let refused = store.acquire(one).await?;
            assert_eq!((refused.allowed, refused.limit_index), (false, 1));
        }
        "peek" => {
            for _ in 0..9 {
                assert_eq!(store.peek(one).await?.remaining, 5);
            }
            let _ = store.acquire(one).await?;
            assert_eq!(store.peek(one).await?.remaining, 4);
        }
        "reset" => {
            let _ = store.acquire(one).await?;
            assert!(store.reset(one).await?);
            assert_eq!(store.peek(one).await?.remaining, 5);
        }
        "refund" => {
            let ticket = store.acquire(one).await?.ticket;
            assert!(store.refund(one, ticket).await?);
            assert_eq!(store.peek(one).await?.remaining, 5);
        }
        "wait" => return wait(store_name, algorithm).await,
        "calendar" => return calendar(store_name, algorithm).await,
        "block" => {
            store.block(one, Duration::from_secs(60)).await?;
            assert!(store.acquire(one).await?.blocked);
            assert!(store.unblock(one).await?);
            for _ in 0..5 {
                assert!(store.acquire(one.with_block(Duration::from_secs(60))).await?.allowed);
            }
            assert!(store.acquire(one.with_block(Duration::from_secs(60))).await?.blocked);
        }
        "growing block" => {
            let [first, longest] = [60, 600].map(Duration::from_secs);
            let growing = one.with_growing_block(first, longest);
            for _ in 0..5 {
                assert!(store.acquire(growing).await?.allowed);
            }
            assert!(store.acquire(growing).await?.blocked);
        }
        "count" => {
            let first = store.acquire(one.reserving()).await?;
            let second = store.acquire(one.reserving()).await?;
            assert!(store.settle(one.reserving(), first.ticket, 1).await?.was_open);
            assert!(store.settle(one.reserving(), second.ticket, 0).await?.was_open);
            assert_eq!(store.peek(one).await?.remaining, 4);
        }
        "actual_cost" => {
            let estimate = one.with_cost(2).reserving_estimate();
            let [first, second] = [store.acquire(estimate).await?, store.acquire(estimate).await?];
            assert_eq!(store.settle(estimate, first.ticket, 1).await?.dropped, 0);
            assert_eq!(store.peek(one).await?.remaining, 2);
            assert_eq!(store.settle(estimate, second.ticket, 20).await?.dropped, 11);
            assert!(!store.acquire(one).await?.allowed);
        }
        "concurrent" => {
            let place = PlaceRequest::new(key.as_bytes(), 1, PermitId::next());
            assert!(store.own().enter(place, &[]).await?.is_entered());
            assert!(
                !store.own().enter(PlaceRequest::new(key.as_bytes(), 1, PermitId::next()), &[]).await?.is_entered()
            );
            store.own().leave(place);
            assert_eq!(store.own().in_flight(place).await?, 0);
        }
        other => panic!("no test tries {other}"),
    }
    Ok(())
}

async fn calendar(store_name: &str, algorithm: Algorithm) -> Result<(), StoreError> {
    let rule = Rule::new("calendar", Limit::calendar(2, CalendarUnit::Year)).with_algorithm(algorithm);
    let (limiter, key) = (limiter(store_name), Key::global());
    for _ in 0..2 {
        match limiter.acquire(&rule, &key).await {
            Ok(decision) => assert!(decision.is_allowed()),
            Err(RateLimitError::Misconfigured(error)) => return Err(StoreError::unsupported(error.to_string())),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(limiter.acquire(&rule, &key).await.is_err());
    Ok(())
}

async fn wait(store_name: &str, algorithm: Algorithm) -> Result<(), StoreError> {
    let rule = Rule::new("wait", Limit::new(1, Duration::from_millis(50))).with_algorithm(algorithm);
    let rule = rule.with_wait(Duration::from_secs(30));
    let limiter = limiter(store_name);
    for _ in 0..3 {
        match limiter.acquire(&rule, &Key::global()).await {
            Ok(decision) => assert!(decision.is_allowed()),
            Err(RateLimitError::Misconfigured(error)) => return Err(error),
            Err(error) => panic!("{error:?}"),
        }
    }
    Ok(())
}

/// What the page says a key takes on Redis.
#[tokio::test]
async fn a_key_takes_what_the_page_says() {
    let server = shared();
    let store = RedisStore::new(&server.url()).unwrap();
    let limits = [Limit::per_minute(126), Limit::per_hour(1_000_000)];
    for algorithm in
        ratelimit_conformance::ALGORITHMS.iter().copied().filter(|algorithm| *algorithm != Algorithm::SlidingWindow)
    {
        let (all, each) = match algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingCounter => (8, 24),
            _ => (16, 8),
        };
        for count in [1, 2] {
            let key = unique("bytes");
            let request = Request::new(key.as_bytes(), algorithm, &limits[..count]);
            for _ in 0..100 {
                let _ = store.acquire(request).await.unwrap();
            }
            assert_eq!(server.cli(&["STRLEN", &key]), (all + each * count).to_string(), "{algorithm}, {count} limits");
        }
    }
    // A sorted set is a list up to 128 entries, beyond that a table beside a skip list.
    // Unless all entries are counted, five stand for all.
    let usage = |key: &str| server.cli(&["MEMORY", "USAGE", key, "SAMPLES", "0"]).parse::<u64>().unwrap();
    for (limit, admissions, per_entry) in [(limits[0], 126, 15..=24), (limits[1], 10_000, 120..=135)] {
        let (key, limits) = (unique("bytes"), [limit]);
        let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
        let _ = store.acquire(request).await.unwrap();
        let one = usage(&key);
        for _ in 1..admissions {
            let _ = store.acquire(request).await.unwrap();
        }
        let each = (usage(&key) - one) / (admissions - 1);
        assert!(per_entry.contains(&each), "{each} bytes for each of {admissions} admissions");
    }
}

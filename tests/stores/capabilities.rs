//! The table of `guide/algorithms.md` that says what works where: it is what the stores
//! declare, which the conformance suite holds them to; and what that page says a key takes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::redis::shared;
use crate::support::unique;
use ratelimit_runtime::__private::Sealed;
use ratelimit_runtime::store::{Feature, Request};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RedisMode, Store};

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
        "Redis" => Arc::new(shared().store().with_clock(clock)),
        "Redis without scripts" => Arc::new(shared().store().mode(RedisMode::Transactions)),
        other => panic!("the table names an unknown store: {other}"),
    };
    // As a limiter tells it: each use connects anew, and a busy machine takes its time.
    let built_in = store.built_in(Sealed).unwrap();
    built_in.answers_within(TIMEOUT);
    store
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim()
        .trim_matches('|')
        .split('|')
        .map(|cell| cell.trim().trim_matches('`'))
        .collect()
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
    let all: BTreeSet<_> = ratelimit_conformance::ALGORITHMS
        .iter()
        .map(ToString::to_string)
        .collect();
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
            let algorithms = row[0]
                .split('`')
                .filter_map(|word| word.parse::<Algorithm>().ok());
            for algorithm in algorithms {
                listed.insert(algorithm.to_string());
                if let Some(at) = header.iter().position(|column| *column == "burst") {
                    assert_eq!(
                        row[at],
                        yes_or_no(algorithm.has_burst()),
                        "a burst of {algorithm}"
                    );
                }
            }
        }
        assert_eq!(listed, all, "the table below {line}");
    }
    assert_eq!(tables, 6, "tables of algorithms");
    assert!(
        PAGE.contains("| algorithm | burst |"),
        "a table says which have a burst"
    );
}

/// How a list writes an algorithm.
type Row = fn(Algorithm) -> String;

/// The other lists of algorithms.
const LISTS: [(&str, Row); 8] = [
    ("docs/redis_format.md", |algorithm| {
        format!("| `{algorithm}` |")
    }),
    ("examples/playground/page/algorithms.js", |algorithm| {
        format!("{algorithm}: {{")
    }),
    ("ratelimit-admin/src/rules.rs", |algorithm| {
        format!("=> \"{algorithm}\"")
    }),
    ("ratelimit-macros/src/arguments.md", |algorithm| {
        format!("`\"{algorithm}\"`")
    }),
    (
        "ratelimit-macros/src/check/rule/limits/algorithm.rs",
        |algorithm| format!("\"{algorithm}\","),
    ),
    (
        "tests/compiler/ui/fail/arguments/keywords.stderr",
        |algorithm| format!("\"{algorithm}\""),
    ),
    ("tests/cost/tests/server.rs", |algorithm| {
        format!("Algorithm::{algorithm:?}")
    }),
    ("tests/stores/player.rs", |algorithm| {
        format!("compare(Algorithm::{algorithm:?})")
    }),
];

#[test]
fn every_list_has_all_algorithms() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut missing = Vec::new();
    for (path, row) in LISTS {
        // Lines may be wrapped anywhere.
        let words = |text: &str| text.split_whitespace().collect::<String>();
        let list = words(&std::fs::read_to_string(root.join(path)).unwrap());
        let rows = ratelimit_conformance::ALGORITHMS
            .iter()
            .map(|algorithm| row(*algorithm));
        missing.extend(
            rows.filter(|row| !list.contains(&words(row)))
                .map(|row| format!("{path}: {row}")),
        );
    }
    assert!(
        missing.is_empty(),
        "these lists lack an algorithm: {missing:#?}"
    );
}

#[test]
fn the_table_of_the_guide_is_what_the_stores_declare() {
    let mut rows = table();
    let header = rows.next().unwrap();
    assert_eq!(
        header,
        [
            vec!["algorithm", "store"],
            COLUMNS.map(|(name, _)| name).to_vec()
        ]
        .concat()
    );
    let mut seen = BTreeSet::new();
    for row in rows.skip(1) {
        let [algorithm, stores, claims @ ..] = row.as_slice() else {
            panic!("a short row: {row:?}")
        };
        let algorithm: Algorithm = algorithm.parse().unwrap();
        assert_eq!(claims.len(), COLUMNS.len(), "{row:?}");
        for store_name in stores.split(", ") {
            assert!(
                seen.insert((store_name, algorithm.to_string())),
                "{algorithm} on {store_name} twice"
            );
            assert_claims(algorithm, store_name, claims);
        }
    }
    let all = STORES.into_iter().flat_map(|store| {
        ratelimit_conformance::ALGORITHMS
            .iter()
            .map(move |it| (store, it.to_string()))
    });
    assert_eq!(seen, all.collect(), "every algorithm on every store");
}

fn assert_claims(algorithm: Algorithm, store_name: &str, claims: &[&str]) {
    let declared = store(store_name).capabilities();
    for (claim, (column, feature)) in claims.iter().zip(COLUMNS) {
        let declared = feature.map_or_else(
            || declared.supports_algorithm(algorithm),
            |feature| declared.supports_feature(algorithm, feature),
        );
        let context = format!("{column} under {algorithm} on {store_name}");
        assert_eq!(*claim, yes_or_no(declared), "{context}, as declared");
    }
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// What the page says a key takes on Redis.
#[tokio::test]
async fn a_key_takes_as_many_bytes_as_the_guide_says() {
    let server = shared();
    let store = server.store();
    let limits = [Limit::per_minute(126), Limit::per_hour(1_000_000)];
    for algorithm in ratelimit_conformance::ALGORITHMS
        .iter()
        .copied()
        .filter(|algorithm| *algorithm != Algorithm::SlidingWindow)
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
            let said = "a string's bytes on the page, and in this test";
            let stored = server.cli(&["STRLEN", &key]);
            assert_eq!(
                stored,
                (all + each * count).to_string(),
                "{algorithm}, {count} limits: {said}"
            );
        }
    }
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        for count in [1, 2] {
            let (ahead, open) = (unique("ahead"), unique("open"));
            let request = |key| Request::new(key, algorithm, &limits[..count]);
            let busy = request(ahead.as_bytes()).with_prefetch(Duration::from_secs(1));
            while !store.acquire(busy).await.unwrap().cached {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let open_call = request(open.as_bytes()).reserving_estimate();
            let _ = store.acquire(open_call).await.unwrap();
            let bytes = 16 + 8 * count;
            for (key, more) in [(ahead, 40), (open, 24 + 56 * count)] {
                let stored = server.cli(&["STRLEN", &key]);
                assert_eq!(stored, (bytes + more).to_string(), "{algorithm}: {key}");
            }
        }
    }
    // A sorted set is a list up to 128 entries, beyond that a table beside a skip list.
    // Unless all entries are counted, five stand for all.
    let usage = |key: &str| {
        server
            .cli(&["MEMORY", "USAGE", key, "SAMPLES", "0"])
            .parse::<u64>()
            .unwrap()
    };
    for (limit, calls, cost, per_entry) in
        [(limits[0], 5, 25, 15..=24), (limits[1], 33, 303, 120..=135)]
    {
        let (key, limits) = (unique("bytes"), [limit]);
        let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
        let _ = store.acquire(request).await.unwrap();
        let one = usage(&key);
        for _ in 0..calls {
            let _ = store.acquire(request.with_cost(cost)).await.unwrap();
        }
        let entries = calls * cost;
        let each = (usage(&key) - one) / entries;
        assert!(
            per_entry.contains(&each),
            "{each} bytes for each of {entries} entries"
        );
    }
}

//! What decisions cost a redis-server, in instructions as callgrind counts them, for every
//! algorithm.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test prints its table, and fails where it cannot"
)]

use ratelimit_cost::{
    COLUMNS, CountedServer, LARGE_COLUMNS, Large, STACKED_COLUMNS, Stacked, Table, lowered,
};
use ratelimit_runtime::Algorithm;

/// The server whose instructions are bounded; another one executes others.
const VERSION: &str = "7.0.";

/// A part of each count is that of a command, divided by how many callers share it; that depends on
/// how fast this process is beside the server: counts of a busy machine are up to 3 % higher. On
/// one key it is most of the count, so these bounds are wide.
const SLACK: f64 = 1.05;

/// The most instructions per decision, in the order of [`COLUMNS`].
fn most(algorithm: Algorithm) -> Option<[u64; COLUMNS.len()]> {
    Some(match algorithm {
        Algorithm::SlidingWindow => [23_400, 31_300, 31_900, 113_000, 8_000, 64_500],
        Algorithm::FixedWindow => [21_200, 19_100, 14_400, 91_800, 1_000, 50_500],
        Algorithm::SlidingCounter => [21_200, 19_500, 16_600, 100_600, 1_000, 50_500],
        Algorithm::TokenBucket => [24_800, 20_900, 17_600, 106_000, 1_000, 52_500],
        Algorithm::LeakyBucket => [24_800, 20_900, 17_600, 106_000, 1_000, 52_800],
        _ => return None,
    })
}

#[test]
fn a_decision_costs_the_server_no_more_than_this() {
    let mut server = CountedServer::start();
    let table = Table::measure(&mut server);
    println!("{table}");
    assert_within(&mut server, COLUMNS, &table.0, most);
    // On any server, what shares a command is cheaper than what stands alone, and a key that all
    // callers ask for costs next to nothing.
    for (algorithm, [_, known, .., hot, one]) in table.0 {
        assert!(
            known < one && hot * 3 <= known,
            "{algorithm}: decisions do not share commands"
        );
    }
}

/// The most instructions of a stack of two rules, in the order of [`STACKED_COLUMNS`]. Those of one
/// caller are few, and Lua collects its garbage in some of them.
fn most_of_two_rules(algorithm: Algorithm) -> Option<[u64; STACKED_COLUMNS.len()]> {
    Some(match algorithm {
        Algorithm::SlidingWindow => [234_000, 238_000, 208_000],
        Algorithm::FixedWindow => [163_000, 168_000, 143_000],
        Algorithm::SlidingCounter => [171_000, 174_000, 148_000],
        Algorithm::TokenBucket | Algorithm::LeakyBucket => [177_000, 175_000, 154_000],
        _ => return None,
    })
}

#[test]
fn a_stack_costs_the_server_no_more_than_this() {
    let mut server = CountedServer::start();
    let stacked = Stacked::measure(&mut server);
    println!("{stacked}");
    assert_within(&mut server, STACKED_COLUMNS, &stacked.0, most_of_two_rules);
}

/// How many times what a decision costs under 100 an hour it may cost under any other limit.
const LARGE: f64 = 1.15;

#[test]
fn a_large_limit_costs_the_server_as_much_as_a_small_one() {
    let mut server = CountedServer::start();
    let large = Large::measure(&mut server);
    println!("{large}");
    let mut failures = Vec::new();
    for (algorithm, small, rows) in &large.0 {
        for (limit, counts) in rows {
            for ((column, count), small) in LARGE_COLUMNS.iter().zip(counts).zip(small) {
                let times = to_f64(*count) / to_f64(*small);
                if times > LARGE {
                    failures.push(format!("{algorithm}, {limit}, {column}: {times:.2} times"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_refusal_reads_no_more_of_a_set_than_its_limit_needs() {
    let mut server = CountedServer::start();
    let lowered = lowered(&mut server);
    println!("2,000 entries, at most 3 now: {lowered}");
    if server.version().starts_with(VERSION) {
        // To read all of the set would be 5,000,000.
        assert!(lowered <= 120_000, "{lowered}");
    }
}

/// Asserts that each figure is within its bound, where the server is the one that they are for.
fn assert_within<const N: usize>(
    server: &mut CountedServer,
    columns: [&str; N],
    rows: &[(Algorithm, [u64; N])],
    most: impl Fn(Algorithm) -> Option<[u64; N]>,
) {
    let version = server.version();
    if !version.starts_with(VERSION) {
        return println!("this is {version}: bounds are those of {VERSION}x, and are not held");
    }
    let mut failures = Vec::new();
    for (algorithm, counts) in rows {
        let most = most(*algorithm);
        assert!(most.is_some(), "{algorithm} has no bound");
        for ((column, count), most) in columns.iter().zip(counts).zip(most.unwrap()) {
            if to_f64(*count) > to_f64(most) * SLACK {
                failures.push(format!("{algorithm}, {column}: {count}, at most {most}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[allow(clippy::cast_precision_loss, reason = "some ten thousand")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

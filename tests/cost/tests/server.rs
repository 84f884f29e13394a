//! What decisions cost a redis-server, in instructions as callgrind counts them, for every
//! algorithm in every layout, beside what articles and the module redis-cell have it do.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test prints its table, and fails where it cannot")]

use ratelimit_cost::{
    Adding, COLUMNS, CountedServer, Figures, Growth, Lowered, Peer, STACKED_COLUMNS, Side, Stacked, Table,
};
use ratelimit_runtime::{Algorithm, LogLayout};

/// The server whose instructions are bounded; another one executes others.
const VERSION: &str = "7.0.";

/// The most instructions per decision, in the order of [`COLUMNS`].
fn most(side: Side) -> Option<[u64; COLUMNS.len()]> {
    Some(match side {
        Side::Ours(Algorithm::SlidingWindow, Some(LogLayout::Zset)) => [25_300, 30_900, 46_600, 57_000, 6_700, 74_700],
        Side::Ours(Algorithm::SlidingWindow, Some(LogLayout::Ring)) => [20_800, 28_400, 20_700, 57_200, 2_900, 69_500],
        Side::Ours(Algorithm::FixedWindow, None) => [25_800, 21_600, 14_400, 41_200, 1_000, 58_300],
        Side::Ours(Algorithm::SlidingCounter, None) => [27_300, 22_900, 15_900, 44_500, 1_000, 58_800],
        Side::Ours(Algorithm::TokenBucket, None) => [29_800, 26_800, 17_000, 55_500, 1_000, 65_700],
        Side::Ours(Algorithm::LeakyBucket, None) => [30_400, 26_800, 16_600, 56_000, 1_000, 64_700],
        _ => return None,
    })
}

/// Counts repeat to one in a hundred. On one key a part is that of a command, divided by how many
/// callers share it; that depends on how fast this process is, so these bounds are wide.
const SLACK: f64 = 1.02;

#[test]
fn a_decision_costs_the_server_no_more_than_this() {
    let mut server = CountedServer::start();
    let table = Table::measure(&mut server, Side::all());
    println!("{table}");
    let version = server.version();
    let of = |side| table.rows.iter().find(|(other, _)| *other == side).map(|(_, figures)| *figures);

    let mut failures = Vec::new();
    for (side, figures) in &table.rows {
        let Side::Ours(..) = side else { continue };
        match most(*side) {
            None => failures.push(format!("{}: it has no bound", side.name())),
            Some(most) if version.starts_with(VERSION) => failures.extend(above(*side, figures, &most)),
            Some(_) => {}
        }
    }
    if !version.starts_with(VERSION) {
        println!("this is {version}: bounds are those of {VERSION}x, and are not held");
    }
    // On any server, what shares a command is cheaper than what stands alone, and a key that all
    // callers ask for costs next to nothing.
    for (side, figures) in table.rows.iter().filter(|(side, _)| matches!(side, Side::Ours(..))) {
        if let [_, Some(known), .., Some(hot), Some(one)] = figures
            && (known >= one || hot * 4 > *known)
        {
            failures.push(format!("{}: decisions do not share commands", side.name()));
        }
    }
    let article = of(Side::Theirs(Peer::ArticleZset));
    assert!(article.is_some_and(|figures| figures[1].is_some()), "there is nothing to compare with");
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The most instructions of a group of two rules, in the order of [`STACKED_COLUMNS`]. Those of one
/// caller are few, and Lua collects its garbage in some of them.
fn most_of_two_rules(side: Side) -> Option<[u64; STACKED_COLUMNS.len()]> {
    Some(match side {
        Side::Ours(Algorithm::SlidingWindow, Some(LogLayout::Zset)) => [202_000, 290_000, 147_000],
        Side::Ours(Algorithm::SlidingWindow, Some(LogLayout::Ring)) => [162_000, 284_000, 101_000],
        Side::Ours(Algorithm::FixedWindow, None) => [117_000, 225_000, 76_000],
        Side::Ours(Algorithm::SlidingCounter, None) => [120_000, 240_000, 76_000],
        Side::Ours(Algorithm::TokenBucket, None) => [140_000, 235_000, 79_000],
        Side::Ours(Algorithm::LeakyBucket, None) => [137_000, 250_000, 80_000],
        _ => return None,
    })
}

/// How many groups of two share a call at most, and how many instructions a server executes within
/// the 250 µs that a call may take, at least.
const GROUPS: u64 = 12;
const MOST_OF_A_CALL: u64 = 2_500_000;

#[test]
fn a_group_of_rules_costs_the_server_no_more_than_this() {
    let mut server = CountedServer::start();
    let stacked = Stacked::measure(&mut server);
    println!("{stacked}");
    if server.version().starts_with(VERSION) {
        let mut failures = Vec::new();
        for (side, counts) in &stacked.0 {
            let most = most_of_two_rules(*side).unwrap();
            let counted = STACKED_COLUMNS.iter().zip(counts.iter().zip(most));
            let above = counted.filter(|(_, (count, most))| to_f64(**count) > to_f64(*most) * SLACK);
            failures.extend(
                above.map(|(column, (count, most))| format!("{}, {column}: {count}, at most {most}", side.name())),
            );
            if counts[0].max(counts[2]) * GROUPS > MOST_OF_A_CALL {
                failures.push(format!("{}: a call takes too long", side.name()));
            }
        }
        assert!(failures.is_empty(), "{failures:#?}");
    }
}

/// The most instructions of one admission, with those of the garbage that Lua may collect in it.
/// 250 µs are some 2,500,000 of them.
fn most_in_one_call(adding: Adding) -> u64 {
    match adding {
        Adding::ToFull => 1_400_000,
        Adding::ToRefunded => 2_150_000,
        Adding::ToHalfRefunded => 2_450_000,
        Adding::ToBlock => 600_000,
        Adding::ToNarrow => 2_800_000,
    }
}

#[test]
fn no_admission_to_a_ring_costs_the_server_more_than_this() {
    let mut server = CountedServer::start();
    let growth = Growth::measure(&mut server);
    println!("{growth}");
    if server.version().starts_with(VERSION) {
        let failures: Vec<_> = growth.0.iter().filter(|(adding, count)| *count > most_in_one_call(*adding)).collect();
        assert!(failures.is_empty(), "{failures:?}");
    }
}

#[test]
fn a_refusal_reads_no_more_of_a_set_than_its_limit_needs() {
    let mut server = CountedServer::start();
    let lowered = Lowered::measure(&mut server);
    println!("{lowered}");
    if server.version().starts_with(VERSION) {
        // To read all of the set would be 5,000,000.
        assert!(lowered.0 <= 120_000, "{lowered}");
    }
}

/// What exceeds its bound.
fn above(side: Side, figures: &Figures, most: &[u64; COLUMNS.len()]) -> Vec<String> {
    let counted = COLUMNS.iter().zip(figures.iter().zip(most));
    let counted = counted.filter_map(|(column, (count, most))| Some((column, (*count)?, *most)));
    let above = counted.filter(|(_, count, most)| to_f64(*count) > to_f64(*most) * SLACK);
    above.map(|(column, count, most)| format!("{}, {column}: {count}, at most {most}", side.name())).collect()
}

#[allow(clippy::cast_precision_loss, reason = "some ten thousand")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

//! What decisions cost a redis-server, in instructions as callgrind counts them, for every
//! algorithm, beside what articles and the module redis-cell have it do.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test prints its table, and fails where it cannot")]

use ratelimit_cost::{COLUMNS, CountedServer, Figures, Lowered, Peer, STACKED_COLUMNS, Side, Stacked, Table};
use ratelimit_runtime::Algorithm;

/// The server whose instructions are bounded; another one executes others.
const VERSION: &str = "7.0.";

/// The most instructions per decision, in the order of [`COLUMNS`].
fn most(side: Side) -> Option<[u64; COLUMNS.len()]> {
    Some(match side {
        Side::Ours(Algorithm::SlidingWindow) => [24_500, 35_500, 36_000, 113_000, 7_900, 69_500],
        Side::Ours(Algorithm::FixedWindow) => [23_100, 20_800, 15_900, 95_000, 1_000, 57_000],
        Side::Ours(Algorithm::SlidingCounter) => [22_400, 21_900, 18_500, 102_500, 1_000, 57_500],
        Side::Ours(Algorithm::TokenBucket) => [27_000, 25_300, 20_100, 104_500, 1_000, 60_000],
        Side::Ours(Algorithm::LeakyBucket) => [27_000, 25_300, 20_100, 104_500, 1_000, 61_000],
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
        Side::Ours(Algorithm::SlidingWindow) => [246_000, 250_000, 219_000],
        Side::Ours(Algorithm::FixedWindow) => [181_000, 185_000, 157_000],
        Side::Ours(Algorithm::SlidingCounter) => [197_000, 198_000, 170_000],
        Side::Ours(Algorithm::TokenBucket | Algorithm::LeakyBucket) => [207_000, 208_000, 175_000],
        _ => return None,
    })
}

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
        }
        assert!(failures.is_empty(), "{failures:#?}");
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

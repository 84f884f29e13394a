//! What a check costs in instructions, beside the same check by `governor`, as callgrind counts
//! them in the release profile. Unlike times, they are the same in every run.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and prints its table"
)]

use std::fmt::Debug;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use ratelimit_cost::{Load, Recording, Work};

/// What is measured, how many instructions a check may take, and how many times those of the peer
/// on the same work.
type Row = (Work, u64, Option<(Work, Ratio)>);

#[derive(Clone, Copy)]
enum Ratio {
    /// What a check is meant to cost.
    Budget(f64),
    /// What it costs, where the budget, which is named, is not met yet.
    SoFar(f64, f64),
}
use Ratio::{Budget, SoFar};

const MOST: [Row; 15] = [
    (Work::Governor, 1_400, None),
    (Work::GovernorDenied, 1_400, None),
    (Work::Leaky, 1_067, Some((Work::Governor, SoFar(0.81, 0.8)))),
    (
        Work::LeakyAnew,
        1_090,
        Some((Work::Governor, SoFar(0.82, 0.8))),
    ),
    (
        Work::LeakyRefused,
        1_162,
        Some((Work::GovernorDenied, SoFar(0.89, 0.8))),
    ),
    (
        Work::Sliding,
        1_075,
        Some((Work::Governor, SoFar(0.81, 0.8))),
    ),
    (
        Work::SlidingRefused,
        1_109,
        Some((Work::GovernorDenied, SoFar(0.85, 0.8))),
    ),
    (
        Work::SlidingRefusedLong,
        1_161,
        Some((Work::GovernorDenied, Budget(0.9))),
    ),
    (
        Work::RefusedAgain,
        1_035,
        Some((Work::GovernorDenied, Budget(0.9))),
    ),
    (Work::ByHand, 1_200, None),
    (Work::Token, 1_067, None),
    (Work::Counter, 1_060, None),
    (Work::Fixed, 1_004, None),
    (Work::Clock, 118, None),
    (Work::Ticking, 145, None),
];

/// What a check costs that is counted: where there is no recorder, by plain counters, and by the
/// exporter for Prometheus.
const COUNTED: [(Work, [u64; 3]); 3] = [
    (Work::Sliding, [1_325, 3_220, 2_365]),
    (Work::SlidingRefused, [1_350, 3_245, 2_390]),
    (Work::RefusedAgain, [1_200, 3_065, 2_210]),
];

/// What a decision on Redis costs this process, key and all, what the system and the server do left
/// out; what it is meant to cost; and how many are made.
const ON_REDIS: [(Load, u64, Option<u64>, u64); 5] = [
    (Load::One, 17_600, Some(15_000), 500),
    (Load::Cold, 17_600, None, 500),
    (Load::Some, 8_200, None, 3_200),
    (Load::Many, 8_000, None, 12_800),
    (Load::Hot, 5_500, None, 12_800),
];

/// What a call costs that is admitted by a unit taken ahead, key and all.
const SPENT: u64 = 1_630;
/// They are all of one grant.
const SPENDINGS: u64 = 400;

/// Counts differ a little between versions of libc.
const SLACK: f64 = 1.03;
/// What the peer's code costs differs with what else the program holds: 1,296 and 1,324.
const LAYOUT: f64 = 1.02;
/// How often a process waits, and how many callers share a call, is not the same in every run: on a
/// machine with other programs a cold key took 21,350.
const SLACK_ON_REDIS: f64 = 1.3;
/// How many times what one caller's check costs it costs by a rule with `prefetch`, on a key that
/// is seldom called. Runs differ by as much.
const COLD: f64 = 1.15;

const CHECKS: u64 = 2_000;

/// How many times what a new key costs in a full store of one rule it costs in one of 10,000.
const AMONG_RULES: f64 = 2.0;

#[test]
fn a_check_costs_no_more_than_this() {
    let _alone = alone();
    let program = build();
    let counts = thread::scope(|scope| {
        let halves = MOST.chunks(MOST.len().div_ceil(2));
        let counting: Vec<_> = halves
            .map(|half| {
                scope.spawn(|| {
                    half.iter()
                        .map(|row| instructions(&program, row.0, CHECKS))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        counting
            .into_iter()
            .flat_map(|half| half.join().unwrap())
            .collect::<Vec<u64>>()
    });
    let counted = |work: Work| {
        MOST.iter()
            .zip(&counts)
            .find(|(row, _)| row.0 == work)
            .map(|(_, count)| *count)
            .unwrap()
    };
    // What it takes that every run sees the same times is no part of a check.
    let ticking = counted(Work::Ticking) - counted(Work::Clock);
    let of = |work: Work| counted(work) - if work.reads_ticking() { ticking } else { 0 };
    let mut failures = Vec::new();
    println!(
        "{:<20} {:>12} {:>6} {:>6}",
        "", "instructions", "ratio", "aim"
    );
    for (work, most, peer) in MOST {
        let count = of(work);
        let ratio = peer.map(|(peer, most)| (to_f64(count) / to_f64(of(peer)), most));
        let shown = ratio.map_or(
            String::new(),
            |(ratio, Budget(budget) | SoFar(_, budget))| format!("{ratio:.2} {budget:>6.2}"),
        );
        println!("{:<20} {count:>12} {shown:>13}", format!("{work:?}"));
        if to_f64(count) > to_f64(most) * SLACK {
            failures.push(format!("{work:?}: {count} instructions, at most {most}"));
        }
        match ratio {
            Some((ratio, Budget(budget))) if ratio > budget * LAYOUT => {
                failures.push(format!(
                    "{work:?}: {ratio:.2} of the peer's, and the budget is {budget}"
                ));
            }
            Some((ratio, SoFar(most, _))) if ratio > most * SLACK * LAYOUT => {
                failures.push(format!(
                    "{work:?}: {ratio:.2} of the peer's, at most {most}"
                ));
            }
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// What a check costs that is counted, where there is no recorder and by two of them.
#[test]
fn a_check_that_is_counted_costs_no_more_than_this() {
    let _alone = alone();
    let program = build_with(&["--features", "metrics"]);
    println!(
        "{:<20} {:>12} {:>12} {:>12}",
        "counted by", "None", "Debugging", "Prometheus"
    );
    let mut failures = Vec::new();
    for (work, most) in COUNTED {
        let counts =
            Recording::ALL.map(|by| instructions_of(&program, work, &[&format!("{by:?}")], CHECKS));
        let [none, debugging, prometheus] = counts;
        println!(
            "{:<20} {none:>12} {debugging:>12} {prometheus:>12}",
            format!("{work:?}")
        );
        for (count, most) in counts.into_iter().zip(most) {
            if to_f64(count) > to_f64(most) * SLACK {
                failures.push(format!("{work:?}: {count} instructions, at most {most}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_check_on_redis_costs_no_more_than_this() {
    let _alone = alone();
    let program = build();
    println!("{:<20} {:>12} {:>6}", "on Redis", "instructions", "aim");
    let (mut failures, mut counts) = (Vec::new(), Vec::new());
    for (load, most, budget, checks) in ON_REDIS {
        let count = instructions(&program, load, checks);
        counts.push(count);
        let budget = budget.map_or(String::new(), |budget| budget.to_string());
        println!("{:<20} {count:>12} {budget:>6}", format!("{load:?}"));
        if to_f64(count) > to_f64(most) * SLACK_ON_REDIS {
            failures.push(format!("{load:?}: {count} instructions, at most {most}"));
        }
    }
    let [one, cold, ..] = counts[..] else {
        panic!("each load is counted")
    };
    let times = to_f64(cold) / to_f64(one);
    println!("Cold / One {times:.2}");
    if times > COLD {
        failures.push(format!("Cold: {times:.2} times One, at most {COLD}"));
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_unit_that_was_taken_ahead_costs_no_more_than_this() {
    let _alone = alone();
    let count = instructions(&build(), Load::Spent, SPENDINGS);
    println!("{:<20} {count:>12}", "Spent");
    assert!(
        to_f64(count) <= to_f64(SPENT) * SLACK,
        "{count}, at most {SPENT}"
    );
}

#[test]
fn a_new_key_in_a_full_store_costs_no_more_among_many_rules() {
    let _alone = alone();
    let program = build();
    let [one, many] =
        ["Full1", "Full10000"].map(|work| instructions(&program, format_args!("{work}"), CHECKS));
    let times = to_f64(many) / to_f64(one);
    println!("a new key: {one}, among 10,000 rules {many}: {times:.2}");
    assert!(times <= AMONG_RULES, "{times:.2}, at most {AMONG_RULES}");
}

/// One test at a time: they build in one folder, and how a process shares commands depends on what
/// runs beside it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program in the release profile, built as users build it: without the features of tests.
fn build() -> PathBuf {
    build_with(&[])
}

/// The same with features of its own. What it depends on is the same, and is built once.
fn build_with(features: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cost");
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--quiet",
            "--locked",
            "--package",
            "ratelimit-cost",
            "--bin",
            "ratelimit-cost",
        ])
        .args(features)
        .arg("--target-dir")
        .arg(&target)
        // The function that is measured is found by its name.
        .env("CARGO_PROFILE_RELEASE_STRIP", "none")
        // Incremental builds inline less.
        .env_remove("CARGO_INCREMENTAL")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.unwrap().success());
    let program = target.join(["ratelimit-cost", features.last().unwrap_or(&"")].join("-"));
    fs::copy(target.join("release/ratelimit-cost"), &program).unwrap();
    program
}

/// How many instructions a check takes: of `2 * checks` less those of `checks`, so that nothing
/// else counts.
fn instructions(program: &Path, work: impl Debug, checks: u64) -> u64 {
    instructions_of(program, work, &[], checks)
}

fn instructions_of(program: &Path, work: impl Debug, more: &[&str], checks: u64) -> u64 {
    let of = |checks| collected(program, &work, more, checks);
    (of(2 * checks) - of(checks)) / checks
}

/// How many instructions a run of so many checks takes.
fn collected(program: &Path, work: impl Debug, more: &[&str], checks: u64) -> u64 {
    let run = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*ratelimit_cost*measured*",
        ])
        .arg(program)
        .args([format!("{work:?}"), checks.to_string()])
        .args(more)
        .output();
    let run = match run {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!(
                "instructions are counted by valgrind, which is not installed: \
                 `apt-get install valgrind` (Debian, Ubuntu), `dnf install valgrind` (Fedora), \
                 `pacman -S valgrind` (Arch); scripts/test.sh does so itself"
            )
        }
        run => run.unwrap(),
    };
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let count = said
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let count = count
        .and_then(|(_, count)| count.trim().parse::<u64>().ok())
        .unwrap_or(0);
    assert!(
        count > 0,
        "{work:?}: the function is not found, or the program failed: {said}"
    );
    count
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

//! The scripts themselves: what a file uses it declares, what a script does not know it refuses,
//! and both ways through it say the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::Algorithm;
use ratelimit_runtime::testkit::scripts;

/// The names that a file gives to others.
fn gives(source: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for line in source.lines() {
        let Some(rest) = line.strip_prefix("local ") else { continue };
        let rest = rest.strip_prefix("function ").map_or(rest, |rest| rest.split('(').next().unwrap());
        names.extend(rest.split('=').next().unwrap().split(',').map(str::trim));
    }
    names
}

fn words(source: &str) -> BTreeSet<&str> {
    let code = source.lines().map(|line| line.split("--").next().unwrap());
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect()
}

/// A script is the files of its algorithm in a row: what one of them uses of another has to be
/// there before it.
#[test]
fn every_file_finds_what_it_uses_in_those_before_it() {
    let all: BTreeSet<&str> = Algorithm::ALL.iter().flat_map(|algorithm| scripts::files(*algorithm)).collect();
    assert!(all.len() > 8);
    let given: BTreeSet<&str> = all.iter().flat_map(|file| gives(file)).collect();
    for &algorithm in Algorithm::ALL {
        let mut before = BTreeSet::new();
        for file in scripts::files(algorithm) {
            let (own, words) = (gives(file), words(file));
            // A field, a local or an argument may have the same name as something small; what is
            // long is meant.
            let is_used = |name: &&&str| {
                let is_meant = file.contains(&format!("{name}(")) || name.chars().all(|c| !c.is_lowercase());
                words.contains(**name) && is_meant && !own.contains(**name) && !file.contains(&format!("local {name}"))
            };
            for name in given.iter().filter(is_used) {
                assert!(before.contains(name), "{algorithm}: {name} is used, and not there before:\n{file}");
            }
            before.extend(own);
        }
    }
}

#[test]
fn every_file_can_be_read_at_one_sitting() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../ratelimit-runtime/src")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "lua") {
                let lines = fs::read_to_string(&path).unwrap().lines().count();
                assert!(lines <= 450, "{} is too long", path.display());
                seen += 1;
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// A question about one limit of 3 a minute.
fn question(operation: u8, algorithm: u8) -> Vec<u8> {
    let mut question = asked(algorithm << 4, (0, operation, 1, 1, 1_000_000), &[(3, 60_000_000)]);
    question.extend(1.7e15_f64.to_le_bytes());
    question
}

/// The first argument of a call: the number, and the client's time.
pub(super) fn head(now: u64) -> Vec<u8> {
    let [seconds, micros] = [now / 1_000_000, now % 1_000_000].map(|part| f64::from(u32::try_from(part).unwrap()));
    [NUMBER, (seconds * 1e6 + micros).to_le_bytes().as_slice()].concat()
}

/// Whether the script answers.
fn answers(source: &str, key: &str, arguments: &[&[u8]]) -> bool {
    let head = head(1_700_000_000_000_000);
    let mut command: Vec<&[u8]> = vec![b"EVAL", source.as_bytes(), b"1", key.as_bytes(), &head];
    command.extend(arguments);
    let reply = crate::support::redis::shared().cli(&command);
    assert!(!reply.contains("compil"), "{reply}");
    !reply.starts_with('-')
}

/// What stands before the questions to a group, of which there are one and one.
const LIST: &[u8] = &[1, 0, 1, 0];
const ACQUIRE: u8 = 1;
const RESERVE: u8 = 2;
const KNOWN: std::ops::RangeInclusive<u8> = 1..=9;

#[test]
fn an_operation_that_a_script_does_not_know_is_an_error_and_never_a_charge() {
    let server = crate::support::redis::shared();
    let together = scripts::all_or_none();
    for &algorithm in Algorithm::ALL {
        let (number, alone) = (scripts::number(algorithm), scripts::whole(algorithm));
        for operation in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 255] {
            for (source, is_known, what) in [
                (alone, KNOWN.contains(&operation), "alone"),
                (together, [ACQUIRE, RESERVE].contains(&operation), "together"),
            ] {
                let key = crate::support::unique("operation");
                let question = question(operation, number);
                let arguments: &[&[u8]] = if what == "alone" { &[&question] } else { &[LIST, &question] };
                let answered = answers(source, &key, arguments);
                assert_eq!(answered, is_known, "{algorithm}, {operation}, {what}");
                if !is_known {
                    assert_eq!(server.cli(&["EXISTS", &key]), "0", "{algorithm}, {operation}, {what}");
                }
            }
        }
    }
    assert!(!answers(together, &crate::support::unique("algorithm"), &[LIST, &question(ACQUIRE, 15)]));
}

/// What a call carries and its reply repeats.
pub(super) const NUMBER: &[u8] = b"\0\r\n\xff5678";

/// What is asked of one key: the time that has passed, the operation, how many calls, the cost, and
/// the block.
pub(super) type Asked = (u64, u8, u16, u64, u64);

/// What each call is told (flags, limit, remaining, retry after, ticket), and the last one's time
/// of reset.
type Told = (Vec<(u8, u8, u64, u64, u64)>, u64);

/// `algorithm` is the second byte: the number, and the layout of a log.
pub(super) fn asked(algorithm: u8, (_, operation, calls, cost, block): Asked, limits: &[(u32, u32)]) -> Vec<u8> {
    let double = |number: u64| f64::from(u32::try_from(number).unwrap()).to_le_bytes();
    let [low, high] = calls.to_le_bytes();
    let mut question = vec![operation, algorithm, low, high, 1, 0, u8::try_from(limits.len()).unwrap()];
    question.extend([cost, block, block].into_iter().flat_map(double));
    for &(max, window) in limits {
        let divisor = (1..=max).rev().find(|divisor| max % divisor == 0 && window % divisor == 0).unwrap();
        question.extend([max, window, max, divisor].into_iter().flat_map(|number| double(number.into())));
    }
    question
}

/// Loads a script that answers in hexadecimal, or with its error.
pub(super) fn loaded(source: &str) -> String {
    let hex = "local said = run()\nreturn type(said) == 'table' and said or \
               (string.gsub(said, '.', function(c) return string.format('%02x', string.byte(c)) end))";
    let source = format!("local function run()\n{source}\nend\n{hex}");
    let sha1 = crate::support::redis::shared().cli(&["SCRIPT", "LOAD", &source]);
    assert_eq!(sha1.len(), 40, "{sha1}");
    sha1
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the scripts answer with whole numbers")]
/// Takes in a reply; returns how many calls are to ask again.
fn told(reply: &str, is_log: bool, cost: u64, (calls, reset): &mut Told) -> u16 {
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes: Vec<u8> = reply.as_bytes().chunks(2).map(byte).collect();
    let records = bytes.strip_prefix(NUMBER).unwrap();
    for record in records.chunks(36) {
        let number = |at: usize| f64::from_le_bytes(record[at..at + 8].try_into().unwrap()) as u64;
        let many = u16::from_le_bytes([record[2], record[3]]);
        if record[0] == 64 {
            return many;
        }
        let (is_allowed, many) = (record[0] & 1 == 1, u64::from(many));
        for i in 0..many {
            let remaining = number(4) + if is_allowed { (many - 1 - i) * cost } else { 0 };
            let ticket = number(28) + if is_log && number(28) > 0 { i } else { 0 };
            calls.push((record[0], record[1], remaining, number(12), ticket));
        }
        *reset = number(20);
    }
    0
}

/// What most calls ask is answered by the quick part alone, in each layout that a question may ask
/// for: on an unused key and on a used one, under one limit and under two, by one call and by
/// several; and it says what the full part says.
#[test]
fn a_quick_part_answers_by_itself_what_most_calls_ask() {
    const PEEK: u8 = 3;
    let server = crate::support::redis::shared();
    let start = 1_700_000_000_000_000_u64;
    let limits: [&[(u32, u32)]; 3] =
        [&[(5, 3_000_000_000)], &[(200, 3_000_000_000)], &[(5, 3_000_000_000), (9, 4_000_000_000)]];
    for &algorithm in Algorithm::ALL {
        let [quick, full] =
            [scripts::quick_alone(algorithm), scripts::full_alone(algorithm)].map(|source| loaded(&source));
        let layouts = scripts::layouts(algorithm).iter().map(|layout| scripts::number(algorithm) << 4 | layout);
        for (second_byte, limits) in layouts.flat_map(|byte| limits.map(|limits| (byte, limits))) {
            let keys = [crate::support::unique("quick"), crate::support::unique("full")];
            // Until the smallest limit refuses, and beyond.
            let steps = [(PEEK, 1), (ACQUIRE, 1), (PEEK, 1), (ACQUIRE, 1), (ACQUIRE, 2), (ACQUIRE, 1), (ACQUIRE, 1)];
            for (at, (operation, calls)) in steps.into_iter().enumerate() {
                let head = head(start + 1_000_000 * at as u64);
                let [by_quick, by_full] = [(&quick, &keys[0]), (&full, &keys[1])].map(|(sha1, key)| {
                    let (mut all, mut left) = ((Vec::new(), 0), calls);
                    while left > 0 {
                        let question = asked(second_byte, (0, operation, left, 1, 0), limits);
                        let command: [&[u8]; 6] = [b"EVALSHA", sha1.as_bytes(), b"1", key.as_bytes(), &head, &question];
                        let reply = server.cli(&command);
                        assert!(!reply.starts_with('-'), "{algorithm}, {second_byte}, step {at}: {reply}");
                        left = told(&reply, scripts::layouts(algorithm).len() > 1, 1, &mut all);
                    }
                    all
                });
                assert_eq!(by_quick, by_full, "{algorithm}, {second_byte}, step {at}");
            }
        }
    }
}

/// Acquiring and peeking, by many calls at once and under several limits, is answered as each call
/// alone is by the part of the script that knows everything.
#[test]
fn the_quick_part_of_a_script_says_what_the_full_one_does() {
    let server = crate::support::redis::shared();
    for &algorithm in Algorithm::ALL {
        let (number, is_log) = (scripts::number(algorithm), scripts::layouts(algorithm).len() > 1);
        let scripts = [loaded(scripts::whole(algorithm)), loaded(&scripts::full_alone(algorithm))];
        // Windows so long that nothing expires on the server meanwhile.
        let limit = (prop_oneof![3 => 1_u32..6, 2 => 4_u32..20, 1 => 100_u32..300], 1_000_000_000_u32..4_000_000_000);
        let passed =
            prop_oneof![3 => 0_u64..3, 1 => 1_u64..1_000_000, 3 => 1_u64..900_000_000, 1 => 1_u64..4_000_000_000];
        let calls = prop_oneof![2 => Just(1_u16), 1 => 2_u16..6, 1 => 2_u16..150];
        let block = prop_oneof![9 => Just(0_u64), 1 => Just(1_500_000_u64)];
        let step = (passed, prop_oneof![4 => Just(1_u8), 1 => Just(3_u8)], calls, 1_u64..4, block);
        let runs = (prop::collection::vec(limit, 1..5), prop::collection::vec(step, 1..30), any::<bool>());
        let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
        let done = runner.run(&runs, |(limits, steps, is_light)| {
            let keys = [crate::support::unique("short"), crate::support::unique("long")];
            let mut now = 1_700_000_000_000_000;
            for step in &steps {
                let (passed, operation, calls, cost, block) = *step;
                now += passed;
                let smallest = limits.iter().map(|&(max, _)| u64::from(max)).min().unwrap();
                let cost = if is_light { 1 } else { cost.min(smallest) };
                let calls = if operation == 3 { 1 } else { calls };
                let [short, long] = [0, 1].map(|part| {
                    let (sha1, key, head) = (scripts[part].as_bytes(), keys[part].as_bytes(), head(now));
                    let (mut all, mut left) = ((Vec::new(), 0), calls);
                    while left > 0 {
                        let question = asked(number << 4, (passed, operation, left, cost, block), &limits);
                        let command: [&[u8]; 6] = [b"EVALSHA", sha1, b"1", key, &head, &question];
                        let later = told(&server.cli(&command), is_log, cost, &mut all);
                        assert!(later < left, "each call decides somebody");
                        left = later;
                    }
                    all
                });
                prop_assert_eq!(short.0.len(), usize::from(calls));
                prop_assert_eq!(&short, &long, "{} under {:?}, {:?} of {:?}", algorithm, limits, step, steps);
            }
            Ok(())
        });
        done.unwrap_or_else(|error| panic!("{error}"));
    }
}

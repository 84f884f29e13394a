//! The scripts themselves: what a file uses it declares, what a script does not know it refuses, and both ways through it
//! say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ratelimit-runtime/src/store/redis/scripts")
}

/// Every script of a folder by its name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "lua"));
    files
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap()))
        .collect()
}

fn needs(source: &str) -> Vec<&str> {
    let line = source.lines().find_map(|line| line.strip_prefix("-- needs: "));
    line.unwrap_or_default().split_whitespace().collect()
}

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

#[test]
fn every_file_declares_what_it_needs_of_others() {
    let files = files(&folder().join("full"));
    assert!(files.len() > 8);
    for (file, source) in &files {
        let declared = needs(source);
        for need in &declared {
            assert!(files.contains_key(*need), "{file} needs {need}, which is no file");
        }
        let own = gives(source);
        let words = words(source);
        for (other, given) in files.iter().filter(|(other, _)| *other != file) {
            // A field, a local or an argument may have the same name as something small; what is long is meant.
            let used = gives(given)
                .into_iter()
                .find(|name| words.contains(name) && !own.contains(name) && !source.contains(&format!("local {name}")));
            let used =
                used.filter(|name| source.contains(&format!("{name}(")) || name.chars().all(|c| !c.is_lowercase()));
            if let Some(name) = used {
                assert!(reaches(&files, file, other), "{file} uses {name} of {other}, and does not say so");
            }
        }
    }
}

#[test]
fn every_file_can_be_read_at_one_sitting() {
    for folder in [folder(), folder().join("quick"), folder().join("full")] {
        for (file, source) in files(&folder) {
            assert!(source.lines().count() <= 350, "{file} is too long");
        }
    }
}

fn reaches(files: &BTreeMap<String, String>, from: &str, to: &str) -> bool {
    needs(&files[from]).into_iter().any(|need| need == to || reaches(files, need, to))
}

const ALGORITHMS: [&str; 5] = ["log", "fixed_window", "sliding_counter", "token_bucket", "leaky_bucket"];

/// The parts of an algorithm: its `quick`, and all that is made for the rest.
fn parts(algorithm: &str) -> [String; 2] {
    fn add<'a>(files: &'a BTreeMap<String, String>, file: &'a str, done: &mut Vec<&'a str>) {
        if done.contains(&file) {
            return;
        }
        for need in needs(&files[file]) {
            add(files, need, done);
        }
        done.push(file);
    }
    let (quick, full) = (files(&folder().join("quick")), files(&folder().join("full")));
    let mut order = vec!["common"];
    add(&full, algorithm, &mut order);
    let full: String = order.into_iter().flat_map(|file| [full[file].as_str(), "\n"]).collect();
    let quick = match algorithm {
        "log" => ["log", "zset", "ring"].map(|file| &*quick[file]).join("\n"),
        other => quick[other].clone(),
    };
    [quick, format!("{full}\nreturn answering({algorithm})\n")]
}

fn functions([quick, full]: &[String; 2]) -> String {
    let first = &files(&folder())["first"];
    format!(
        "local function quick(alone, key, question, calls)\n{first}\n{quick}\nreturn record, answered, calls\nend\n\
         local function full(kind)\n{full}end\n"
    )
}

/// The script of one algorithm, as the store composes it.
fn script(algorithm: &str) -> String {
    let (files, parts) = (files(&folder()), parts(algorithm));
    let file = |name: &str| files[name].clone();
    let start = ["head", "alone", "first"].map(file).join("\n");
    [start, parts[0].clone(), file("at_once"), functions(&parts), file("answer"), file("each")].join("\n")
}

/// The script that decides several keys together.
fn all_or_none() -> String {
    let files = files(&folder());
    let mut chosen = [String::new(), String::new()];
    for (number, algorithm) in (1..).zip(ALGORITHMS) {
        for (chosen, part) in chosen.iter_mut().zip(parts(algorithm)) {
            let _ = write!(chosen, "if kind == {number} then\n{part}\nend\n");
        }
    }
    [&files["head"], &functions(&chosen), &files["answer"], &files["all_or_none"]].map(String::as_str).join("\n")
}

/// A question about one limit of 3 a minute.
fn question(operation: u8, algorithm: u8) -> Vec<u8> {
    let numbers = |numbers: [f64; 3]| numbers.into_iter().flat_map(f64::to_le_bytes);
    let head = [operation, algorithm << 4, 1, 0].into_iter().chain(numbers([1.0, 1_000_000.0, 1.7e15]));
    head.chain([1]).chain(numbers([3.0, 6e7, 3.0])).collect()
}

/// Whether the script answers.
fn answers(source: &str, key: &str, question: &[u8]) -> bool {
    let (key, now) = (key.as_bytes(), b"1700000000000000");
    let command: [&[u8]; 7] = [b"EVAL", source.as_bytes(), b"1", key, now, NUMBER, question];
    let reply = crate::support::redis::shared().cli(&command);
    assert!(!reply.contains("compil"), "{reply}");
    !reply.starts_with('-')
}

const ACQUIRE: u8 = 1;
const RESERVE: u8 = 2;
const KNOWN: std::ops::RangeInclusive<u8> = 1..=8;

#[test]
fn an_operation_that_a_script_does_not_know_is_an_error_and_never_a_charge() {
    let server = crate::support::redis::shared();
    let together = all_or_none();
    for (number, algorithm) in (1..).zip(ALGORITHMS) {
        let alone = script(algorithm);
        for operation in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 255] {
            for (source, is_known, what) in [
                (&alone, KNOWN.contains(&operation), "alone"),
                (&together, [ACQUIRE, RESERVE].contains(&operation), "together"),
            ] {
                let key = crate::support::unique("operation");
                let answered = answers(source, &key, &question(operation, number));
                assert_eq!(answered, is_known, "{algorithm}, {operation}, {what}");
                if !is_known {
                    assert_eq!(server.cli(&["EXISTS", &key]), "0", "{algorithm}, {operation}, {what}");
                }
            }
        }
        assert!(!answers(&together, &crate::support::unique("algorithm"), &question(ACQUIRE, 6)));
    }
}

/// What a call carries and its reply repeats.
const NUMBER: &[u8] = b"\0\r\n\xff5678";

/// What is asked of one key: the time that has passed, the operation, how many calls, the cost, and the block.
type Asked = (u64, u8, u16, u64, u64);

/// What each call is told (flags, limit, remaining, retry after, ticket), and the last one's time of reset.
type Told = (Vec<(u8, u8, u64, u64, u64)>, u64);

fn asked(algorithm: u8, (_, operation, calls, cost, block): Asked, limits: &[(u32, u32)]) -> Vec<u8> {
    let double = |number: u64| f64::from(u32::try_from(number).unwrap()).to_le_bytes();
    let [low, high] = calls.to_le_bytes();
    let mut question = vec![operation, algorithm << 4, low, high];
    question.extend([cost, block, 0].into_iter().flat_map(double));
    question.push(u8::try_from(limits.len()).unwrap());
    for &(max, window) in limits {
        question.extend([max, window, max].into_iter().flat_map(|number| double(number.into())));
    }
    question
}

/// Loads a script that answers in hexadecimal.
fn loaded(source: &str) -> String {
    let hex = "return (string.gsub(run(), '.', function(c) return string.format('%02x', string.byte(c)) end))";
    let source = format!("local function run()\n{source}\nend\n{hex}");
    let sha1 = crate::support::redis::shared().cli(&["SCRIPT", "LOAD", &source]);
    assert_eq!(sha1.len(), 40, "{sha1}");
    sha1
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the scripts answer with whole numbers")]
/// Takes in a reply; returns how many calls are to ask again.
fn told(reply: &str, algorithm: u8, cost: u64, (calls, reset): &mut Told) -> u16 {
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
            let ticket = number(28) + if algorithm == 1 && number(28) > 0 { i } else { 0 };
            calls.push((record[0], record[1], remaining, number(12), ticket));
        }
        *reset = number(20);
    }
    0
}

/// Acquiring and peeking, by many calls at once and under several limits, is answered as each call alone is by the part
/// of the script that knows everything.
#[test]
fn the_short_way_of_a_script_says_what_the_long_one_does() {
    let server = crate::support::redis::shared();
    for (number, algorithm) in (1..).zip(ALGORITHMS) {
        let files = files(&folder());
        let long = functions(&[String::new(), parts(algorithm)[1].clone()]);
        let long = ["local left, records\n", &files["head"], &long, &files["answer"], &files["each"]].join("\n");
        let scripts = [loaded(&script(algorithm)), loaded(&long)];
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
                let [short, long] = [0, 1].map(|way| {
                    let (sha1, key, now) = (scripts[way].as_bytes(), keys[way].as_bytes(), now.to_string());
                    let (mut all, mut left) = ((Vec::new(), 0), calls);
                    while left > 0 {
                        let question = asked(number, (passed, operation, left, cost, block), &limits);
                        let command: [&[u8]; 7] = [b"EVALSHA", sha1, b"1", key, now.as_bytes(), NUMBER, &question];
                        let later = told(&server.cli(&command), number, cost, &mut all);
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

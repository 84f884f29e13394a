//! The scripts themselves: what a file uses it declares, and what a script does not know it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ratelimit-runtime/src/store/redis/scripts")
}

/// Every file of a folder by its name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
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
            *chosen += &format!("if kind == {number} then\n{part}\nend\n");
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
    let command: [&[u8]; 6] = [b"EVAL", source.as_bytes(), b"1", key.as_bytes(), b"1700000000000000", question];
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

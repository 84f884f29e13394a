//! The scripts themselves: what a file uses it declares, and what a script does not know it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Every file of the folder by its name.
fn files() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ratelimit-runtime/src/store/redis/scripts");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
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
    let files = files();
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
        assert!(source.lines().count() <= 350, "{file} is too long to be read at one sitting");
    }
}

fn reaches(files: &BTreeMap<String, String>, from: &str, to: &str) -> bool {
    needs(&files[from]).into_iter().any(|need| need == to || reaches(files, need, to))
}

/// The text of a script: what a file needs, the file, and a last line.
fn script(files: &BTreeMap<String, String>, file: &str) -> String {
    fn add<'a>(files: &'a BTreeMap<String, String>, file: &'a str, done: &mut Vec<&'a str>) {
        if done.contains(&file) {
            return;
        }
        for need in needs(&files[file]) {
            add(files, need, done);
        }
        done.push(file);
    }
    let mut order = Vec::new();
    add(files, file, &mut order);
    order.into_iter().flat_map(|file| [files[file].as_str(), "\n"]).collect()
}

const OPERATIONS: [&str; 8] = ["acquire", "reserve", "peek", "refund", "release", "commit", "block", "unblock"];

fn run(source: &str, key: &str, kind: &str, operation: &str) -> String {
    let server = crate::support::redis::shared();
    let asked = [kind, operation, "1", "1000000", "1700000000000000", "1", "3", "60000000", "3"];
    let command = ["EVAL", source, "1", key, "1700000000000000"].into_iter().chain(asked);
    server.cli(&command.collect::<Vec<_>>())
}

#[test]
fn an_operation_that_a_script_does_not_know_is_an_error_and_never_a_charge() {
    let files = files();
    let server = crate::support::redis::shared();
    for kind in ["zset", "ring", "fixed_window", "sliding_counter", "token_bucket", "leaky_bucket"] {
        let source = script(&files, kind) + &format!("return {kind}(KEYS[1], next_request())");
        let without: &[&str] = if kind == "zset" { &["reserve", "release", "commit"] } else { &[] };
        for operation in OPERATIONS.into_iter().chain(["hold", "return", "Acquire", "", "none"]) {
            let key = crate::support::unique("operation");
            let reply = run(&source, &key, kind, operation);
            let known = OPERATIONS.contains(&operation) && !without.contains(&operation);
            assert_eq!(!reply.starts_with('-'), known, "{kind}, {operation}: {reply}");
            if !known {
                assert_eq!(server.cli(&["EXISTS", &key]), "0", "{kind}, {operation}");
            }
        }
        let together = script(&files, "all_or_none");
        for operation in OPERATIONS.into_iter().chain(["hold", ""]) {
            let key = crate::support::unique("operation");
            let reply = run(&together, &key, kind, operation);
            let known = operation == "acquire" || operation == "reserve" && kind != "zset";
            // A sorted set says so when it comes to the charge, before which nothing is written.
            assert_eq!(!reply.contains("keeps no"), known, "all or none of {kind}, {operation}: {reply}");
            if !known {
                assert_eq!(server.cli(&["EXISTS", &key]), "0", "all or none of {kind}, {operation}");
            }
        }
    }
}

//! What lists the algorithms outside of the runtime's table has all of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ratelimit_runtime::Algorithm;

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// The attribute cannot ask the runtime: it has a table of its own.
#[test]
fn the_attribute_knows_the_algorithms_of_the_runtime() {
    let source = text("ratelimit-macros/src/check/rule/limits/algorithm.rs");
    let values = source.split_once("values: &[").and_then(|(_, rest)| rest.split_once("],")).unwrap().0;
    let values: BTreeSet<_> = values.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(values.len(), Algorithm::ALL.len(), "{values:?}");
    for algorithm in Algorithm::ALL {
        let make = if algorithm.has_burst() { "bucket" } else { "window" };
        let (start, built) = (format!("(\"{algorithm}\", "), format!("Algorithm::{make}(\"{algorithm:?}\""));
        let is_there = values.iter().any(|value| value.starts_with(&start) && value.contains(&built));
        assert!(is_there, "{start}{built}… is missing: {values:?}");
    }
}

/// The playground shows one lane for any of them.
#[test]
fn the_playground_has_all_algorithms() {
    let page = text("examples/playground/page/algorithms.js");
    let lanes: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("  ")?.strip_suffix(": {")).collect();
    let all: BTreeSet<_> = Algorithm::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(lanes, all.iter().map(String::as_str).collect());
}

/// The files below a folder of the runtime that have this extension.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let (mut folders, mut found) =
        (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../ratelimit-runtime/src").join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|of| of == extension) {
                found.push(fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// A user who may do what the pages say can run every script to its end.
#[test]
fn the_commands_of_the_scripts_are_those_that_a_user_is_told_to_allow() {
    let scripts = files("", "lua");
    assert!(scripts.len() > 5, "{} scripts", scripts.len());
    let mut commands = BTreeSet::new();
    for script in &scripts {
        for function in ["call('", "call, '"] {
            let names = script.split(function).skip(1).filter_map(|rest| rest.split_once('\'')).map(|(name, _)| name);
            commands.extend(names.filter(|name| name.chars().all(|sign| sign.is_ascii_uppercase())));
        }
    }
    assert!(commands.len() > 8, "{commands:?}");
    let format = text("docs/redis_format.md");
    let store = files("store/redis", "rs");
    let needs = store.iter().find_map(|file| file.split_once("/// The user needs")?.1.split_once("pub struct"));
    let (needs, _) = needs.unwrap();
    for command in commands {
        let allowed = format!("+{}", command.to_lowercase());
        let mut words = format.split(|sign: char| sign.is_whitespace() || "`,".contains(sign));
        assert!(words.any(|word| word == allowed), "the page on the format lacks {allowed}");
        assert!(needs.contains(&format!("`{command}`")), "`RedisStore` lacks {command}");
    }
}

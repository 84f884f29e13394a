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
        let start = format!("(\"{algorithm}\", Algorithm::{make}(\"{algorithm:?}\"");
        assert!(values.iter().any(|value| value.starts_with(&start)), "{start}… is missing: {values:?}");
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

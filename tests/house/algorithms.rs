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

/// Where they are shown to people, or tried one by one.
#[test]
fn programs_that_name_algorithms_name_all_of_them() {
    for path in [
        "tests/compiler/ui/pass/algorithm.rs",
        "examples/admin/arguments.rs",
        "examples/replay/args.rs",
        "examples/playground/page/algorithms.js",
        "examples/playground/page/index.html",
    ] {
        let text = text(path);
        for algorithm in Algorithm::ALL {
            assert!(text.contains(&algorithm.to_string()), "{path} does not name {algorithm}");
        }
    }
}

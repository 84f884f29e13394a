//! A word is one type in a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::assert_only;
use crate::source::{Source, type_name};

/// Names that stand for several types today.
const TYPES_OF_THE_RUNTIME: &[&str] = &[
    "Asked",
    "Entry",
    "Kept",
    "Open",
    "OpenPermit",
    "Place",
    "Queue",
    "Repr",
    "Rule",
    "Shared",
    "Table",
    "Time",
    "Turn",
];

const TYPES_OF_THE_MACROS: &[&str] = &["Reader"];

fn assert_one_type_a_name(package: &str, exceptions: &[&str]) {
    // A type that has one form with a feature and another one without it stands at one path.
    let mut paths: BTreeMap<String, BTreeSet<&[String]>> = BTreeMap::new();
    let source = Source::of(package);
    for (path, module) in source.modules() {
        for name in module.items.iter().filter_map(type_name) {
            paths.entry(name).or_default().insert(path);
        }
    }
    assert!(paths.len() > 20, "{package}: {paths:?}");
    let doubles = paths.iter().filter(|(_, paths)| paths.len() > 1);
    assert_only(doubles.map(|(name, _)| name.as_str()), exceptions.to_vec());
}

#[test]
fn a_name_stands_for_one_type() {
    assert_one_type_a_name("ratelimit-runtime", TYPES_OF_THE_RUNTIME);
    assert_one_type_a_name("ratelimit-macros", TYPES_OF_THE_MACROS);
}

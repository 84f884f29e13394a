//! A word is one type in a crate, and a line fits a window.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::assert_only;
use crate::links::workspace;
use crate::source::{Source, type_name};

/// How many lines of programs and scripts are longer than 100 characters today, by folder.
const LONG_LINES: &[(&str, usize)] = &[
    ("benches/peers/src", 1),
    ("examples", 5),
    ("examples/frameworks", 3),
    ("examples/policies", 3),
    ("ratelimit-admin/src", 1),
    ("ratelimit-admin/src/replay", 3),
    ("ratelimit-macros/src", 1),
    ("ratelimit-macros/src/check", 6),
    ("ratelimit-macros/src/expand", 6),
    ("ratelimit-macros/src/parse", 5),
    ("ratelimit-macros/src/plan", 1),
    ("ratelimit-runtime/src", 5),
    ("ratelimit-runtime/src/adapter", 9),
    ("ratelimit-runtime/src/algorithm", 40),
    ("ratelimit-runtime/src/client_ip", 1),
    ("ratelimit-runtime/src/engine", 3),
    ("ratelimit-runtime/src/limiter", 3),
    ("ratelimit-runtime/src/observe", 2),
    ("ratelimit-runtime/src/response", 2),
    ("ratelimit-runtime/src/rule", 15),
    ("ratelimit-runtime/src/store", 198),
    ("ratelimit-runtime/src/testkit", 2),
    ("tests/attribute", 3),
    ("tests/compiler/ui", 37),
    ("tests/conformance/src", 5),
    ("tests/cost/src", 2),
    ("tests/cost/tests", 1),
    ("tests/engine", 1),
    ("tests/examples", 5),
    ("tests/faults", 5),
    ("tests/frameworks", 2),
    ("tests/limiter", 5),
    ("tests/neutrality", 9),
    ("tests/redis", 29),
    ("tests/stores", 15),
    ("tests/support", 1),
];

fn assert_one_type_a_name(package: &str) {
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
    assert_only(doubles.map(|(name, _)| name.as_str()), []);
}

#[test]
fn a_name_stands_for_one_type() {
    assert_one_type_a_name("ratelimit-runtime");
    assert_one_type_a_name("ratelimit-macros");
}

/// Adds the long lines of each folder, each as file and number; folders of folders count to the
/// third.
fn find_long_lines(folder: &Path, into: &mut BTreeMap<String, Vec<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            find_long_lines(&path, into);
        } else if path
            .extension()
            .is_some_and(|kind| kind == "rs" || kind == "lua")
        {
            let text = fs::read_to_string(&path).unwrap();
            let is_long = |line: &&str| line.chars().count() > 100;
            let within = folder.strip_prefix(workspace()).unwrap();
            let folders: Vec<_> = within
                .iter()
                .take(3)
                .map(|name| name.to_str().unwrap())
                .collect();
            let found = text.lines().zip(1..).filter(|(line, _)| is_long(line));
            let name = |(_, number): (&str, u32)| format!("{}:{number}", path.display());
            let lines = into.entry(folders.join("/")).or_default();
            lines.extend(found.map(name));
        }
    }
}

#[test]
fn a_line_has_at_most_100_characters() {
    let mut folders = BTreeMap::new();
    find_long_lines(&workspace(), &mut folders);
    assert!(folders.len() > 40, "{folders:?}");
    let most: BTreeMap<_, _> = LONG_LINES.iter().copied().collect();
    let mut wrong = Vec::new();
    for (folder, lines) in &folders {
        let most = most.get(folder.as_str()).copied().unwrap_or(0);
        match lines.len() {
            found if found > most => wrong.push(format!("{folder}: {most} are known: {lines:#?}")),
            found if found < most => {
                wrong.push(format!("{folder}: LONG_LINES says {most}: write {found}"));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let are_there = |(folder, _): &(&str, usize)| folders.contains_key(*folder);
    assert!(LONG_LINES.iter().all(are_there), "a folder that is gone");
}

//! What the compiler says: every file in `ui/fail` holds the mistakes of one group, a function each,
//! with what a user reads next to it. Errors of types, of borrows and of lints have files of their
//! own: the compiler reports each kind only where there are none of the kinds before it. Every file
//! in `ui/pass` is a module that denies all warnings, with functions of shapes that no other test
//! has, called once more than is admitted.
//!
//! One file alone: `cargo test -p ratelimit-ui -- fail trybuild=window`. New words are written with
//! `TRYBUILD=overwrite`; read the difference as someone who sees the message for the first time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file with this extension below `ui/<kind>`.
fn files(kind: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("ui").join(kind)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension() == Some(OsStr::new(extension)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The modules of `ui/pass`, compiled and run as a part of this test.
macro_rules! pass {
    ($($name:ident)*) => {
        #[path = "pass"]
        #[allow(clippy::many_single_char_names, reason = "the shapes are the point")]
        mod pass {
            $(mod $name;)*
        }

        const PASS: &[&str] = &[$(stringify!($name)),*];
    };
}

pass! {
    associated_types
    async_closures
    attribute_by_its_path
    every_argument
    macro_styles
    no_prelude
    other_attributes
    question_mark
    receivers_of_all_kinds
    shadowed_names
}

#[rustversion::attr(not(stable(1.95)), ignore = "the snapshots are those of Rust 1.95")]
#[test]
fn fail() {
    let mut wanted = files("fail", "rs");
    let filter: Vec<String> = std::env::args()
        .filter_map(|argument| argument.strip_prefix("trybuild=").map(str::to_owned))
        .collect();
    wanted.retain(|path| {
        filter.is_empty()
            || filter
                .iter()
                .any(|part| path.to_string_lossy().contains(part))
    });
    assert!(!wanted.is_empty(), "no case matches {filter:?}");
    let cases = trybuild::TestCases::new();
    for path in wanted {
        cases.compile_fail(path);
    }
}

#[test]
fn no_case_is_lost() {
    let fail = files("fail", "rs");
    assert!(fail.len() >= 30, "only {} files of mistakes", fail.len());
    let without_extension = |paths: Vec<PathBuf>| {
        paths
            .into_iter()
            .map(|path| path.with_extension(""))
            .collect()
    };
    let (cases, words): (BTreeSet<_>, BTreeSet<_>) = (
        without_extension(fail),
        without_extension(files("fail", "stderr")),
    );
    let odd: Vec<_> = cases.symmetric_difference(&words).collect();
    assert!(
        odd.is_empty(),
        "a case without its words, or words without their case: {odd:#?}"
    );

    let pass = files("pass", "rs");
    let names: Vec<_> = pass
        .iter()
        .map(|case| case.file_stem().unwrap().to_string_lossy())
        .collect();
    assert_eq!(
        PASS, names,
        "the list of modules above is not what the folder holds"
    );
}

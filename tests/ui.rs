//! What the compiler says: every file in `ui/fail` is a mistake with the words a user reads next to it, every file in
//! `ui/pass` is a program that compiles and runs.
//!
//! One file alone: `cargo test -p ratelimit-tests --test ui -- trybuild=window_zero`. New words are written with
//! `TRYBUILD=overwrite`; read the difference as someone who sees the message for the first time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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

/// The files that a `trybuild=…` on the command line leaves: all of them without one. A filter that matches nothing
/// is a mistake, not a success.
fn wanted() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let filter: Vec<String> =
        std::env::args().filter_map(|argument| argument.strip_prefix("trybuild=").map(str::to_owned)).collect();
    let wanted = |path: &PathBuf| {
        filter.is_empty() || filter.iter().any(|part| path.to_string_lossy().contains(part.as_str()))
    };
    let (mut fail, mut pass) = (files("fail", "rs"), files("pass", "rs"));
    fail.retain(wanted);
    pass.retain(wanted);
    assert!(!fail.is_empty() || !pass.is_empty(), "no case matches {filter:?}");
    (fail, pass)
}

#[rustversion::attr(not(stable(1.95)), ignore = "the snapshots are those of Rust 1.95")]
#[test]
fn ui() {
    let (fail, pass) = wanted();
    let cases = trybuild::TestCases::new();
    for path in fail {
        cases.compile_fail(path);
    }
    for path in pass {
        cases.pass(path);
    }
}

#[test]
fn no_case_is_lost() {
    let (fail, pass) = (files("fail", "rs"), files("pass", "rs"));
    assert!(fail.len() >= 70, "only {} cases fail", fail.len());
    assert!(pass.len() >= 15, "only {} cases pass", pass.len());
    let snapshots: Vec<PathBuf> = fail.iter().map(|case| case.with_extension("stderr")).collect();
    assert_eq!(files("fail", "stderr"), snapshots, "a case without its words, or words without their case");
}

//! What the compiler says: every file in `ui/fail` is a mistake with the words a user reads next to
//! it, every file in `ui/pass` is a function of another shape, in a module that denies all
//! warnings, called once more than is admitted.
//!
//! One file alone: `cargo test -p ratelimit-ui -- trybuild=window_zero`. New words are written with
//! `TRYBUILD=overwrite`; read the difference as someone who sees the message for the first time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use ratelimit_runtime::RateLimitError;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Calls a function that parses a number and admits one call in which that fails: those that
/// succeed give their slot back.
async fn only_failures_count<T>(call: impl AsyncFn(&'static str) -> Outcome<T>) {
    for _ in 0..2 {
        assert!(call("1").await.is_ok(), "what succeeds takes no slot");
    }
    let failed = call("?").await.err().unwrap();
    assert!(!failed.is::<RateLimitError>(), "the body has run: {failed}");
    let refused = call("1").await.err().unwrap();
    assert!(refused.is::<RateLimitError>(), "the slot is taken: {refused}");
}

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
    actual_cost
    algorithm
    aliased_result
    associated_function
    associated_types
    async_closures
    async_trait
    attribute_by_its_path
    block
    burst
    conditional_argument
    const_generic
    cost
    count
    count_async_trait
    count_coercion
    count_early_return
    count_future_is_send
    count_generic
    count_impl_trait_in_the_result
    count_in_shadow
    count_items_in_the_body_do_not_meet_the_guard
    count_lifetimes
    count_made_by_a_macro
    count_methods
    count_mutable_argument
    count_patterns
    count_question_mark
    count_returned_future
    count_stacked
    count_trait_method
    count_without_a_result
    derived_key
    every_argument
    free_function
    generic
    impl_trait_argument
    impl_trait_in_the_result
    items_in_the_body_do_not_meet_the_guard
    lifetimes
    limits
    macro_styles
    made_by_a_macro
    mutable_argument
    no_prelude
    on_refused_without_a_result
    other_attributes
    patterns
    policy
    question_mark
    raw_identifier
    receiver_arc
    receiver_by_mutable_reference
    receiver_by_reference
    receiver_by_value
    receivers_of_all_kinds
    response_of_its_own
    returns_boxed_future
    returns_impl_future
    shadowed_names
    trait_method
    trait_method_with_default_body
    unused_argument
    wait
}

#[rustversion::attr(not(stable(1.95)), ignore = "the snapshots are those of Rust 1.95")]
#[test]
fn fail() {
    let mut wanted = files("fail", "rs");
    let filter: Vec<String> =
        std::env::args().filter_map(|argument| argument.strip_prefix("trybuild=").map(str::to_owned)).collect();
    wanted.retain(|path| filter.is_empty() || filter.iter().any(|part| path.to_string_lossy().contains(part)));
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
    let without_extension = |paths: Vec<PathBuf>| paths.into_iter().map(|path| path.with_extension("")).collect();
    let (cases, words): (BTreeSet<_>, BTreeSet<_>) =
        (without_extension(fail), without_extension(files("fail", "stderr")));
    let odd: Vec<_> = cases.symmetric_difference(&words).collect();
    assert!(odd.is_empty(), "a case without its words, or words without their case: {odd:#?}");

    let pass = files("pass", "rs");
    assert!(pass.len() >= 50, "only {} cases pass", pass.len());
    let names: Vec<_> = pass.iter().map(|case| case.file_stem().unwrap().to_string_lossy()).collect();
    assert_eq!(PASS, names, "the list of modules above is not what the folder holds");
}

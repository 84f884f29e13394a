//! The repository as a whole: links lead somewhere, files use each other in one direction, a word
//! is one type, lines fit, promises have tests, and there is one README.
//!
//! Lists of exceptions say what is not so yet. They only get shorter.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::collections::BTreeSet;
use std::fmt::Debug;

mod links;
mod promises;
mod rooms;
mod source;
mod words;

/// An exception that is no longer needed fails too, so that it goes and does not come back.
fn assert_only<T: Ord + Debug>(
    found: impl IntoIterator<Item = T>,
    exceptions: impl IntoIterator<Item = T>,
) {
    let found = BTreeSet::from_iter(found);
    let exceptions = BTreeSet::from_iter(exceptions);
    let new: Vec<_> = found.difference(&exceptions).collect();
    let needless: Vec<_> = exceptions.difference(&found).collect();
    assert!(new.is_empty(), "new: {new:#?}");
    assert!(needless.is_empty(), "needless exceptions: {needless:#?}");
}

/// A registry shows the README of the crate, which is that of the repository.
#[test]
fn the_readme_of_the_runtime_is_that_of_the_repository() {
    let readme = links::workspace().join("ratelimit-runtime/README.md");
    assert_eq!(
        std::fs::read_link(readme).unwrap().to_str(),
        Some("../README.md")
    );
}

//! The repository as a whole: links lead somewhere, the modules of each crate use each other in one
//! direction, and there is one README.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod links;
mod rooms;

/// A registry shows the README of the crate, which is that of the repository.
#[test]
fn the_readme_of_the_runtime_is_that_of_the_repository() {
    let readme = links::workspace().join("ratelimit-runtime/README.md");
    assert_eq!(
        std::fs::read_link(readme).unwrap().to_str(),
        Some("../README.md")
    );
}

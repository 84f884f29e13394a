//! The README of the repository is that of the crate.

use std::fs;
use std::path::Path;

#[test]
fn both_are_the_same() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| fs::read_to_string(workspace.join(path)).unwrap();
    let differs = "they differ: cp README.md ratelimit-runtime/README.md";
    assert!(read("README.md") == read("ratelimit-runtime/README.md"), "{differs}");
}

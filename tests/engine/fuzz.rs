//! The corpus of the fuzzers, on the ordinary compiler.

#[allow(unreachable_pub, reason = "it is a library of its own")]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut files = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        let file = file.unwrap().path();
        run(&fs::read(file).unwrap());
        files += 1;
    }
    assert!(files > 10, "{target} has a corpus of {files}");
}

#[test]
fn the_corpus_of_keys_is_replayed() {
    replay("key", targets::key);
}

#[test]
fn the_corpus_of_policies_is_replayed() {
    replay("policy", targets::policy);
}

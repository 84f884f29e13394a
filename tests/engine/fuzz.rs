//! What is fuzzed, on the ordinary compiler: the corpus, and random bytes.

#[allow(unreachable_pub, reason = "it is a library of its own")]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut files = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        let file = file.unwrap().path();
        run(&fs::read(file).unwrap());
        files += 1;
    }
    assert!(files > 10, "{target} has a corpus of {files}");
}

#[test]
fn keys() {
    replay("key", targets::key);
}

#[test]
fn policies() {
    replay("policy", targets::policy);
}

/// Few different bytes, and those that have a meaning in a key: likely collisions are tried often.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![0..10_u8, select(b"ab,()<>{}%#-:.0C2\x1f\x7f\xc3\xa9\xff".to_vec()), any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

    #[test]
    fn keys_are_equal_exactly_when_templates_and_values_are(data in vec(byte(), 0..60)) {
        targets::key(&data);
    }
}

//! What the fuzzer has kept, on the ordinary compiler.

use std::fs;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut files = 0;
    for file in fs::read_dir(&corpus).expect("a corpus") {
        let file = file.unwrap().path();
        println!("{}", file.display());
        run(&fs::read(file).unwrap());
        files += 1;
    }
    assert!(files > 10, "{target} has a corpus of {files}");
}

#[test]
fn keys() {
    replay("key", super::key);
}

#[test]
#[cfg(feature = "serde")]
fn policies() {
    replay("policy", super::policy);
}

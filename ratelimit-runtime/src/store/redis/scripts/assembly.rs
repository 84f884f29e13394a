//! The files in `generated/` are assembled of the files that people edit. `SCRIPTS=overwrite` writes
//! them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::script::{PERMITS, lua};
use crate::rule::Algorithm;

/// The body of the function `decide` of a script.
struct Body {
    name: &'static str,
    /// The algorithms that the script is of; none for permits.
    algorithms: &'static [Algorithm],
    /// The paths of its files, in `src`.
    files: &'static [&'static str],
}

const BODIES: [Body; 5] = [
    Body {
        name: "sliding_window",
        algorithms: &[Algorithm::SlidingWindow],
        files: &["algorithm/sliding_window/script.lua"],
    },
    Body {
        name: "sliding_counter",
        algorithms: &[Algorithm::SlidingCounter],
        files: &[
            "algorithm/sliding_counter/script.lua",
            "algorithm/counter/windows.lua",
            "algorithm/counter/counters.lua",
        ],
    },
    Body {
        name: "fixed_window",
        algorithms: &[Algorithm::FixedWindow],
        files: &[
            "algorithm/fixed_window/script.lua",
            "algorithm/counter/windows.lua",
            "algorithm/counter/counters.lua",
        ],
    },
    Body {
        name: "bucket",
        algorithms: &[Algorithm::TokenBucket, Algorithm::LeakyBucket],
        files: &[
            "algorithm/bucket/script.lua",
            "algorithm/counter/counters.lua",
        ],
    },
    Body {
        name: "permits",
        algorithms: &[],
        files: &["store/redis/permits/script.lua"],
    },
];

/// The first line of each script.
const NOTE: &str = "-- Assembled of other files, which are those to edit, by assembly.rs.";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn read(file: &str) -> String {
    fs::read_to_string(sources().join(file)).unwrap()
}

/// The scripts, their names, and whose they are.
fn assembled() -> Vec<(&'static str, String, &'static [Algorithm])> {
    let part = |name: &str| read(&format!("store/redis/scripts/{name}.lua"));
    let (head, tail) = (part("head"), part("tail"));
    // The head ends with the parameters of `decide`.
    let (_, parameters) = head.rsplit_once("decide(").unwrap();
    let mut stack = format!("{NOTE}\n{}", part("stack_head"));
    let mut scripts = Vec::new();
    for body in &BODIES {
        // Whether keys are strings, how many windows a first charge lives, and what the script of
        // stacks knows it by.
        let row = body.algorithms.first().map(|algorithm| algorithm.row());
        let (reads, windows, number) = row.map_or((false, 1, PERMITS), |row| {
            (!row.is_log, row.windows, row.number)
        });
        let code: String = body.files.iter().map(|file| read(file)).collect();
        writeln!(
            stack,
            "algorithms[{number}] = function({parameters}{code}end"
        )
        .unwrap();
        let variables = format!("local READS, WINDOWS = {reads}, {windows}");
        let script = format!("{NOTE}\n{variables}\n{head}{code}{tail}");
        scripts.push((body.name, script, body.algorithms));
    }
    scripts.push(("stack", stack + &part("stack_tail"), &[]));
    scripts
}

/// Where a file is not what its parts make, and what to do.
fn difference(file: &str, there: &str, made: &str) -> Option<String> {
    if there == made {
        return None;
    }
    let (mut old, mut new) = (there.lines(), made.lines());
    let mut number = 0;
    let (old, new) = loop {
        number += 1;
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => {}
            (None, None) => break ("(another end of the last line)", ""),
            (old, new) => break (old.unwrap_or("(its end)"), new.unwrap_or("(its end)")),
        }
    };
    Some(format!(
        "{file} is not what its parts make. Line {number} in the tree:\n  {old}\nand of the \
         parts:\n  {new}\nIf you meant this change: SCRIPTS=overwrite cargo test -p \
         ratelimit-runtime --all-features --lib assembly"
    ))
}

#[test]
fn a_script_that_differs_is_named_with_its_first_line_that_does() {
    assert_eq!(difference("a.lua", "a\nb\n", "a\nb\n"), None);
    for (there, parts) in [
        ("a\nb\nc\n", ["Line 2 in the tree:\n  b\n", "parts:\n  x\n"]),
        (
            "a\n",
            ["Line 2 in the tree:\n  (its end)\n", "parts:\n  x\n"],
        ),
        (
            "a\nx\nc",
            ["Line 4 in the tree:\n", "SCRIPTS=overwrite cargo test"],
        ),
    ] {
        let said = difference("a.lua", there, "a\nx\nc\n").unwrap();
        assert!(said.starts_with("a.lua is not"), "{said}");
        assert!(parts.into_iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn the_scripts_are_those_that_their_parts_make() {
    let scripts = assembled();
    let file = |name: &str| format!("store/redis/scripts/generated/{name}.lua");
    if env::var_os("SCRIPTS").is_some_and(|value| value == "overwrite") {
        for (name, script, _) in scripts {
            fs::write(sources().join(file(name)), script).unwrap();
        }
        return;
    }
    for (name, script, _) in &scripts {
        let difference = difference(&file(name), &read(&file(name)), script);
        assert!(difference.is_none(), "{}", difference.unwrap());
    }
    for algorithm in Algorithm::ALL {
        let mut own = scripts.iter().filter(|(.., of)| of.contains(algorithm));
        let is_own = own.any(|(_, script, _)| lua(*algorithm).source == script);
        assert!(
            is_own,
            "{algorithm}: what its folder includes is not its script"
        );
    }
}

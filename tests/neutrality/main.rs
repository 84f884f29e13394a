//! What the compiler and clippy say of a function is the same with the attribute and without, but
//! for what the texts beside this file list. `NEUTRALITY=overwrite` writes them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod one_line;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

const MANIFEST: &str = r#"[package]
name = "NAME"
version = "0.0.0"
edition = "2024"

[workspace]

[features]
limited = []

[dependencies]
async-trait = "0.1"
ratelimit-runtime = { path = "RUNTIME", default-features = false, features = ["macros"] }

[lib]
path = "SOURCE"
"#;

/// A lint about a line of the source.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lint {
    code: String,
    line: usize,
    text: String,
}

/// What clippy says of the package in `folder`.
fn lints(folder: &Path, features: &[&str]) -> BTreeSet<Lint> {
    let output = Command::new(env!("CARGO"))
        .args(["clippy", "--quiet", "--offline", "--message-format=json"])
        .args(features)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("../target"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut lints = BTreeSet::new();
    for line in printed.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let at = |path: &str| message.pointer(path).cloned().unwrap_or_default();
        let lint = (
            at("/message/code/code").as_str().map(str::to_owned),
            at("/message/spans/0/line_start")
                .as_u64()
                .and_then(|line| usize::try_from(line).ok()),
        );
        if let (Some(code), Some(line)) = lint {
            let text = at("/message/spans/0/text/0/text")
                .as_str()
                .unwrap_or_default()
                .trim()
                .to_owned();
            assert!(!code.starts_with('E'), "{code} at {line}: {text}");
            lints.insert(Lint { code, line, text });
        }
    }
    assert!(
        lints.len() > 20,
        "only {lints:#?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    lints
}

/// The lints that the attribute loses and gains in the package `name`, which `describe` puts into
/// words.
fn differences(name: &str, source: &Path, describe: impl Fn(&Lint) -> String) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = here.join("../target/neutrality").join(name);
    fs::create_dir_all(&folder).unwrap();
    let manifest = MANIFEST
        .replace("NAME", name)
        .replace(
            "RUNTIME",
            &here.join("../ratelimit-runtime").display().to_string(),
        )
        .replace("SOURCE", &source.display().to_string());
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(here.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();

    let (without, with) = (
        lints(&folder, &[]),
        lints(&folder, &["--features", "limited"]),
    );
    let lost = without
        .difference(&with)
        .map(|lint| format!("- {}", describe(lint)));
    let gained = with
        .difference(&without)
        .map(|lint| format!("+ {}", describe(lint)));
    lost.chain(gained)
        .fold(String::new(), |text, line| text + &line + "\n")
}

/// Compares with the text beside this file, or writes it.
fn are_those_listed(differences: &str, list: &str) {
    let list = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("neutrality")
        .join(list);
    if env::var_os("NEUTRALITY").is_some_and(|value| value == "overwrite") {
        fs::write(list, differences).unwrap();
        return;
    }
    let listed = fs::read_to_string(list).unwrap();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (now, then) = (lines(differences), lines(&listed));
    let changed: Vec<_> = now.symmetric_difference(&then).collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

fn there_is_clippy() -> bool {
    Command::new(env!("CARGO"))
        .args(["clippy", "--version"])
        .output()
        .is_ok_and(|found| found.status.success())
}

#[rustversion::attr(not(stable(1.95)), ignore = "the lints are those of Rust 1.95")]
#[test]
fn lints_are_the_same_with_the_attribute() {
    if !there_is_clippy() {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("neutrality/functions.rs");
    let found = differences("functions", &source, |Lint { code, line, text }| {
        format!("{code} at {line}: {text}")
    });
    are_those_listed(&found, "differences.txt");
}

#[rustversion::attr(not(stable(1.95)), ignore = "the lints are those of Rust 1.95")]
#[test]
fn lints_are_the_same_for_bodies_on_one_line() {
    if !there_is_clippy() {
        return;
    }
    let (source, what) = one_line::source();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/neutrality/one_line");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("one_line.rs");
    fs::write(&path, source).unwrap();
    let found = differences("one_line", &path, |lint| {
        format!("{}: {}", lint.code, what[lint.line - 1])
    });
    are_those_listed(&found, "one_line.txt");
}

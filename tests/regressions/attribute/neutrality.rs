//! What the compiler and clippy say of a function is the same with the attribute and without, but for what
//! `neutrality/differences.txt` lists. `NEUTRALITY=overwrite` writes it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

const MANIFEST: &str = r#"[package]
name = "neutrality"
version = "0.0.0"
edition = "2024"

[workspace]

[features]
limited = []

[dependencies]
ratelimit-runtime = { path = "RUNTIME", default-features = false, features = ["macros"] }

[lib]
path = "SOURCE"
"#;

/// The names of the lints about each line of the functions, with the line.
fn lints(folder: &Path, features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["clippy", "--quiet", "--offline", "--message-format=json"])
        .args(features)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    let mut lints = BTreeSet::new();
    for line in printed.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let at = |path: &str| message.pointer(path);
        let text = at("/message/spans/0/text/0/text").and_then(Value::as_str).unwrap_or_default().trim();
        let code = at("/message/code/code").and_then(Value::as_str);
        let number = at("/message/spans/0/line_start").and_then(Value::as_u64);
        if let (Some(code), Some(line)) = (code, number) {
            lints.insert(format!("{code} at {line}: {text}"));
        }
    }
    assert!(lints.len() > 20, "only {lints:#?}");
    lints
}

#[rustversion::attr(not(stable(1.95)), ignore = "the lints are those of Rust 1.95")]
#[test]
fn lints_are_the_same_with_the_attribute() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !Command::new(env!("CARGO")).args(["clippy", "--version"]).output().is_ok_and(|found| found.status.success()) {
        return;
    }
    let folder = here.join("../target/neutrality");
    fs::create_dir_all(&folder).unwrap();
    let path = |path: &str| here.join(path).display().to_string();
    let manifest = MANIFEST
        .replace("RUNTIME", &path("../ratelimit-runtime"))
        .replace("SOURCE", &path("regressions/attribute/neutrality/functions.rs"));
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(here.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();

    let (without, with) = (lints(&folder, &[]), lints(&folder, &["--features", "limited"]));
    let lost = without.difference(&with).map(|lint| format!("- {lint}\n"));
    let gained = with.difference(&without).map(|lint| format!("+ {lint}\n"));
    let differences: String = lost.chain(gained).collect();
    let written = here.join("regressions/attribute/neutrality/differences.txt");
    if env::var_os("NEUTRALITY").is_some_and(|value| value == "overwrite") {
        fs::write(written, differences).unwrap();
        return;
    }
    assert_eq!(differences, fs::read_to_string(written).unwrap());
}

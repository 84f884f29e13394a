//! What a registry wants to know of the crates.

use toml::{Table, Value};

use crate::links::read;

fn table(text: &str) -> Table {
    text.parse().unwrap()
}

#[test]
fn the_crates_say_what_a_registry_shows() {
    let manifest = table(&read("Cargo.toml"));
    let shared = &manifest["workspace"]["package"];
    for name in ["ratelimit-macros", "ratelimit-runtime"] {
        let manifest = table(&read(format!("{name}/Cargo.toml")));
        let package = &manifest["package"];
        let of = |field: &str| {
            let own = package.get(field).unwrap_or_else(|| panic!("{name} has no {field}"));
            if own.get("workspace") == Some(&Value::Boolean(true)) { shared[field].clone() } else { own.clone() }
        };
        for field in ["description", "license", "repository", "documentation", "readme", "rust-version"] {
            assert!(of(field).as_str().is_some_and(|text| !text.is_empty()), "{name}: {field}");
        }
        assert_eq!(of("documentation").as_str(), Some(format!("https://docs.rs/{name}").as_str()));
        // As many as a registry takes, and as long.
        for field in ["keywords", "categories"] {
            let words: Vec<_> = of(field).as_array().unwrap().iter().filter_map(Value::as_str).map(str::len).collect();
            assert!((1..=5).contains(&words.len()) && words.iter().all(|length| *length <= 30), "{name}: {field}");
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(read(licence) == read(format!("{name}/{licence}")), "{name}: {licence} is another");
        }
    }
    // One number: the runtime takes exactly the macros that were released with it.
    let exactly = format!("={}", shared["version"].as_str().unwrap());
    assert_eq!(manifest["workspace"]["dependencies"]["ratelimit-macros"]["version"].as_str(), Some(exactly.as_str()));
}

//! What a registry wants to know of the crates, and where links lead.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

fn table(text: &str) -> Table {
    text.parse().unwrap()
}

/// `https://github.com/` and an owner, as the manifest has it, with the name of the repository.
fn repository() -> String {
    let manifest = table(&read("Cargo.toml"));
    manifest["workspace"]["package"]["repository"].as_str().unwrap().to_owned()
}

#[test]
fn the_crates_say_what_a_registry_shows() {
    let manifest = table(&read("Cargo.toml"));
    let shared = &manifest["workspace"]["package"];
    for name in ["ratelimit-macros", "ratelimit-runtime"] {
        let manifest = table(&read(&format!("{name}/Cargo.toml")));
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
            assert!(read(licence) == read(&format!("{name}/{licence}")), "{name}: {licence} is another");
        }
    }
    // One number: the runtime takes exactly the macros that were released with it.
    let exactly = format!("={}", shared["version"].as_str().unwrap());
    assert_eq!(manifest["workspace"]["dependencies"]["ratelimit-macros"]["version"].as_str(), Some(exactly.as_str()));
}

/// The pages that are published, by their paths from the root.
fn pages() -> Vec<String> {
    let root = ["README.md", "README.zh-CN.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"];
    let docs = fs::read_dir(workspace().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let docs =
        docs.map(|name| Path::new("docs").join(name)).filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    let all = root.map(str::to_owned).into_iter().chain(docs.map(|path| path.to_string_lossy().into_owned()));
    all.filter(|page| workspace().join(page).exists()).collect()
}

#[test]
fn the_repository_has_one_owner() {
    let repository = repository();
    let (host, _) = repository.split_at("https://github.com/".len());
    assert_eq!(host, "https://github.com/");
    let mut named = 0;
    for page in pages() {
        let text = read(&page);
        for (at, _) in text.match_indices(host) {
            let rest = text.get(at..).unwrap();
            let link: &str = rest.split([')', '>', ' ', '\n', '"']).next().unwrap();
            if link.split('/').nth(4).is_some_and(|name| name == "ratelimit") {
                assert!(link.starts_with(&repository), "{page}: {link} has another owner than {repository}");
                named += 1;
            }
        }
    }
    assert!(named > 0, "SECURITY.md names it");
}

/// Links into the repository, relative ones and those that a registry can follow.
#[test]
fn links_lead_to_files_that_are_there() {
    let repository = repository();
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        let folder = Path::new(&page).parent().unwrap();
        for (at, _) in text.match_indices("](") {
            let link = text.get(at + 2..).and_then(|rest| rest.split([')', '#']).next()).unwrap();
            let path = match link.strip_prefix(&repository) {
                // …/blob/main/docs/algorithms.md
                Some(rest) => PathBuf::from(rest.splitn(4, '/').nth(3).unwrap_or_default()),
                None if link.contains("://") || link.starts_with("mailto:") || link.is_empty() => continue,
                None => folder.join(link),
            };
            assert!(workspace().join(&path).exists(), "{page}: {link} leads nowhere");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} links");
}

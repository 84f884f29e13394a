//! Links lead somewhere, wherever a page is read: in the repository, on a registry, on docs.rs, and
//! without any of them.

use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 12] = [
    "CHANGELOG.md",
    "README.md",
    "README.zh-CN.md",
    "ratelimit-macros/README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples/README.md",
    "docs/expansion.md",
    "docs/redis_format.md",
    "docs/redis_format_faults.md",
    "benches/peers/RESULTS.md",
    "tests/faults/RESULTS.md",
];
const GUIDE: &str = "ratelimit-runtime/src/guide";
/// The guide as it is published.
const PUBLISHED: &str = "https://docs.rs/ratelimit-runtime/latest/ratelimit_runtime/guide/";

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = workspace().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `[name]: link`
pub(crate) fn definition(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.split_once("]: ")
}

/// The texts between `before` and `after`.
fn between<'a>(text: &'a str, before: &str, after: char) -> impl Iterator<Item = &'a str> {
    text.split(before)
        .skip(1)
        .map(move |rest| rest.split(after).next().unwrap())
}

/// The text without code.
fn prose(text: &str) -> String {
    let mut open = false;
    let mut lines = String::new();
    for line in text.lines() {
        open ^= line.trim_start().starts_with("```");
        if !open {
            lines.extend(line.split('`').step_by(2).chain(["\n"]));
        }
    }
    lines
}

/// The pages of a folder, and those of its folders.
fn pages_of(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_of(&path, pages);
        } else if path.extension().is_some_and(|kind| kind == "md")
            && !path.ends_with("readme_links.md")
        {
            pages.push(path);
        }
    }
}

fn chapters() -> Vec<PathBuf> {
    let mut chapters = vec![];
    pages_of(&workspace().join(GUIDE), &mut chapters);
    assert!(chapters.len() > 15, "{chapters:?}");
    chapters
}

/// A heading, as a browser finds it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| {
        if c == ' ' {
            '-'
        } else {
            c.to_ascii_lowercase()
        }
    })
    .collect()
}

/// `redis`, `algorithms#what-works-where`: a chapter, and a heading in it. An empty path
/// is the guide itself.
fn assert_chapter(page: &str, link: &str) {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = path.trim_end_matches('/');
    let plain = workspace().join(GUIDE).join(format!("{path}.md"));
    if path.is_empty() {
        return assert!(heading.is_empty(), "{page}: {link}");
    }
    let text = fs::read_to_string(&plain).unwrap_or_else(|error| panic!("{page}: {link}: {error}"));
    let mut headings = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_matches(['#', ' '])));
    assert!(
        heading.is_empty() || headings.any(|it| it == heading),
        "{page}: {} has no #{heading}",
        plain.display()
    );
}

fn assert_leads_somewhere(page: &str, link: &str) {
    if let Some(chapter) = link.strip_prefix(PUBLISHED) {
        assert_chapter(page, chapter);
    } else if !link.contains("://") && !link.starts_with('#') {
        let path = Path::new(page)
            .parent()
            .unwrap()
            .join(link.split('#').next().unwrap());
        assert!(
            workspace().join(&path).exists(),
            "{page}: {link} leads nowhere"
        );
    }
}

#[test]
fn links_of_pages_lead_somewhere() {
    for page in PAGES {
        let text = prose(&read(page));
        let defined: Vec<_> = text.lines().filter_map(definition).collect();
        for (name, link) in &defined {
            assert!(
                text.contains(&format!("][{name}]")),
                "{page}: [{name}] is not used"
            );
            assert_leads_somewhere(page, link);
        }
        for used in between(&text, "][", ']') {
            assert!(
                defined.iter().any(|(name, _)| *name == used),
                "{page}: [{used}] leads nowhere"
            );
        }
        between(&text, "](", ')').for_each(|link| assert_leads_somewhere(page, link));
    }
}

/// What the package does not contain is found by the address in the manifest.
#[test]
fn links_of_the_guide_lead_somewhere() {
    let modules = read(format!("{GUIDE}/mod.rs"));
    let repository: Vec<_> = between(&modules, "repository!(\"", ')')
        .filter_map(|it| it.split_once("\" => \""))
        .collect();
    assert!(repository.len() > 4, "{repository:?}");
    for (name, path) in &repository {
        let path = path.trim_end_matches('"').splitn(3, '/').nth(2).unwrap();
        assert!(
            workspace().join(path).exists(),
            "[{name}]: {path} is not there"
        );
    }
    for chapter in chapters() {
        let (page, text) = (
            chapter.display().to_string(),
            prose(&fs::read_to_string(&chapter).unwrap()),
        );
        for used in between(&text, "][", ']') {
            assert!(
                repository.iter().any(|(name, _)| *name == used),
                "{page}: [{used}] leads nowhere"
            );
        }
        for link in between(&text, "](", ')') {
            // What is not in the guide rustdoc looks at.
            match link.strip_prefix("crate::guide::") {
                Some(path) => assert_chapter(&page, &path.replace("::", "/")),
                None if link.starts_with('#') => {
                    let own = chapter
                        .strip_prefix(workspace().join(GUIDE))
                        .unwrap()
                        .with_extension("");
                    assert_chapter(&page, &format!("{}{link}", own.display()));
                }
                None => assert!(
                    link.contains("::") || link.starts_with("https://"),
                    "{page}: {link}"
                ),
            }
        }
    }
}

/// On docs.rs, and in what `cargo doc` builds, there is neither the repository around the README
/// nor another version.
#[test]
fn on_its_own_page_the_crate_leads_to_this_version_and_to_the_repository() {
    let (crate_page, chapters) = (
        read("ratelimit-runtime/src/lib.rs"),
        read(format!("{GUIDE}/readme_links.md")),
    );
    let readme = read("README.md");
    for (name, link) in readme.lines().filter_map(definition) {
        if let Some(chapter) = link.strip_prefix(PUBLISHED) {
            let path = chapter.replace("/#", "#");
            let path = path.trim_end_matches('/').replace('/', "::");
            let module = if path.is_empty() {
                "crate::guide".to_owned()
            } else {
                format!("crate::guide::{path}")
            };
            assert!(
                chapters
                    .lines()
                    .any(|line| line == format!("[{name}]: {module}")),
                "readme_links.md: {name}"
            );
        } else if !link.contains("://") {
            let kinds = if workspace().join(link).is_dir() {
                ["tree"; 2]
            } else {
                ["blob", "raw"]
            };
            let leads = |kind| {
                let definition = format!(
                    r#""\n[{name}]: ", env!("CARGO_PKG_REPOSITORY"), "/{kind}/HEAD/{link}","#
                );
                crate_page.contains(&definition)
            };
            assert!(kinds.into_iter().any(leads), "lib.rs: {name}");
        }
    }
    for (name, _) in chapters.lines().filter_map(definition) {
        assert!(
            readme.contains(&format!("][{name}]")),
            "readme_links.md: {name} is not in the README"
        );
    }
}

/// The folders and files that are published, but for what others made.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || ["target", "corpus"].contains(&name.as_str()) {
        } else if path.is_dir() {
            texts(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn only_the_manifest_names_the_repository() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let repository = manifest["workspace"]["package"]["repository"]
        .as_str()
        .unwrap();
    assert!(
        repository.starts_with("https://github.com/"),
        "{repository}"
    );
    let mut found = vec![];
    texts(&workspace(), &mut found);
    assert!(found.len() > 300, "{} files", found.len());
    for path in found
        .iter()
        .filter(|path| **path != workspace().join("Cargo.toml"))
    {
        // A picture names nothing.
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        assert!(
            !text.contains(repository),
            "{}: by CARGO_PKG_REPOSITORY, or relative",
            path.display()
        );
    }
}

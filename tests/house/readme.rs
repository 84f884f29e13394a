//! The README is that of the crate as well, its links can be followed from anywhere, and its Chinese sister says the same.

use std::fs;
use std::path::{Path, PathBuf};

const ENGLISH: &str = "README.md";
const CHINESE: &str = "README.zh-CN.md";
/// What leads to a file of the repository, up to the path of that file.
const REPOSITORY: &str = "https://github.com/OWNER/ratelimit/";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

#[test]
fn both_are_the_same() {
    let differs = "they differ: cp README.md ratelimit-runtime/README.md";
    assert!(read(ENGLISH) == read("ratelimit-runtime/README.md"), "{differs}");
}

/// What a page is made of, but for the words.
#[derive(Debug, PartialEq)]
struct Shape {
    /// With their languages, whole.
    blocks: Vec<String>,
    /// How deep each is.
    headings: Vec<usize>,
    /// How many columns each row has.
    rows: Vec<usize>,
    list_items: usize,
    /// Where its references lead.
    links: Vec<String>,
}

impl Shape {
    fn of(page: &str) -> Self {
        let mut shape = Self { blocks: vec![], headings: vec![], rows: vec![], list_items: 0, links: vec![] };
        let mut open = false;
        for line in read(page).lines() {
            if line.starts_with("```") {
                if !open {
                    shape.blocks.push(String::new());
                }
                open = !open;
            }
            if open {
                let block = shape.blocks.last_mut().unwrap();
                block.push_str(line);
                block.push('\n');
            } else if line.starts_with('#') {
                shape.headings.push(line.chars().take_while(|c| *c == '#').count());
            } else if line.starts_with('|') {
                shape.rows.push(line.replace("\\|", "").matches('|').count());
            } else if line.starts_with("- ") {
                shape.list_items += 1;
            } else if let Some((_, link)) = definition(line) {
                shape.links.push(link.to_owned());
            }
        }
        assert!(!open, "{page}: a block has no end");
        shape
    }
}

/// `[name]: link`
fn definition(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.split_once("]: ")
}

#[test]
fn the_chinese_one_has_the_same_programs_headings_and_tables() {
    let (mut english, mut chinese) = (Shape::of(ENGLISH), Shape::of(CHINESE));
    assert!(english.blocks.len() > 10 && english.headings.len() > 10 && english.rows.len() > 40, "{english:?}");
    for (ours, theirs) in english.blocks.iter().zip(&chinese.blocks) {
        assert_eq!(ours, theirs, "programs are the same in both, comments included");
    }
    // The first link of each is to the other.
    assert_eq!(english.links.remove(0), format!("{REPOSITORY}blob/main/{CHINESE}"));
    assert_eq!(chinese.links.remove(0), format!("{REPOSITORY}blob/main/{ENGLISH}"));
    assert_eq!(english, chinese);
}

#[test]
fn links_of_the_guide_lead_somewhere() {
    let folder = "ratelimit-runtime/src/guide";
    let files = fs::read_dir(workspace().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let chapters: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "md")).collect();
    assert!(chapters.len() > 8, "{chapters:?}");
    for chapter in chapters {
        assert_references_lead_somewhere(&chapter.display().to_string(), &fs::read_to_string(&chapter).unwrap());
    }
}

/// All references are defined and used, and those into the repository lead to what is there.
fn assert_references_lead_somewhere(page: &str, text: &str) {
    let defined: Vec<_> = text.lines().filter_map(definition).collect();
    for (name, link) in &defined {
        assert!(text.contains(&format!("][{name}]")), "{page}: [{name}] is not used");
        assert!(link.starts_with("https://"), "{page}: {link}");
        if let Some(path) = link.strip_prefix(REPOSITORY) {
            // blob/main/docs/algorithms.md#what-works-where
            let path = path.splitn(3, '/').nth(2).unwrap().split('#').next().unwrap();
            assert!(workspace().join(path).exists(), "{page}: {path} is not there");
        }
    }
    for used in text.split("][").skip(1).map(|rest| rest.split(']').next().unwrap()) {
        assert!(defined.iter().any(|(name, _)| *name == used), "{page}: [{used}] leads nowhere");
    }
}

/// A registry and docs.rs show the page without the repository around it.
#[test]
fn links_can_be_followed_from_anywhere() {
    for page in [ENGLISH, CHINESE] {
        let text = read(page);
        assert_references_lead_somewhere(page, &text);
        for link in text.split("](").skip(1) {
            assert!(link.starts_with("https://"), "{page}: {}", link.lines().next().unwrap());
        }
    }
}

//! One README for repository and crate, and its Chinese counterpart with the same structure.

use std::fs;
use std::path::Path;

use crate::links::{definition, read, workspace};

const ENGLISH: &str = "README.md";
const CHINESE: &str = "README.zh-CN.md";

#[test]
fn the_readme_of_the_crate_is_a_link_to_that_of_the_repository() {
    let link = fs::read_link(workspace().join("ratelimit-runtime/README.md")).unwrap();
    assert_eq!(link, Path::new("../README.md"));
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

#[test]
fn the_chinese_one_has_the_same_programs_headings_and_tables() {
    let (mut english, mut chinese) = (Shape::of(ENGLISH), Shape::of(CHINESE));
    assert!(english.blocks.len() > 8 && english.headings.len() > 8 && english.rows.len() > 30, "{english:?}");
    for (ours, theirs) in english.blocks.iter().zip(&chinese.blocks) {
        assert_eq!(ours, theirs, "programs are the same in both, comments included");
    }
    // The first link of each is to the other.
    assert_eq!(english.links.remove(0), CHINESE);
    assert_eq!(chinese.links.remove(0), ENGLISH);
    assert_eq!(english, chinese);
}

//! Comments are narrow enough to be read.

use std::fs;
use std::path::Path;

/// Characters in a line of comment, its indentation included.
const WIDTH: usize = 100;

const SOURCES: [&str; 6] = ["ratelimit-macros", "ratelimit-runtime", "tests", "examples", "benches", "fuzz"];

/// The files below these folders of the repository that have one of the extensions: path and text.
pub(super) fn files(folders: &[&str], extensions: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut left: Vec<_> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = left.pop() {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "target" {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted)) {
            let text = fs::read_to_string(&path).unwrap();
            files.push((path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(), text));
        }
    }
    files.sort();
    files
}

/// The numbers of the lines that are too wide. What cannot be broken is left out: rows of tables,
/// addresses, code.
fn wide(text: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut wide = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let comment = line.trim_start();
        let Some(words) = ["///", "//!", "//", "--"].iter().find_map(|mark| comment.strip_prefix(mark)) else {
            in_code = false;
            continue;
        };
        let words = words.trim_start();
        if words.starts_with("```") {
            in_code = !in_code;
        }
        let unbreakable = in_code || words.starts_with('|') || words.starts_with('[') && words.contains("]: ");
        if line.chars().count() > WIDTH && !unbreakable && !words.contains("://") {
            wide.push(at + 1);
        }
    }
    wide
}

#[test]
fn no_line_of_comment_is_wider_than_a_reader_likes() {
    let files = files(&SOURCES, &["rs", "lua"]);
    assert!(files.len() > 400, "{} files", files.len());
    let found = files.into_iter().filter_map(|(path, text)| {
        let lines = wide(&text);
        let why = format!("{path}: comments in lines {lines:?} are wider than {WIDTH} characters: break them");
        (!lines.is_empty()).then_some(why)
    });
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_can_be_broken_is_found() {
    let long = "word ".repeat(25);
    let text = format!(
        "//! {long}\nlet a = 1; // {long}\n    // {long}\n-- {long}\n/// | {long} |\n/// ```\n/// {long}\n/// ```\n/// {long}\nshort"
    );
    assert_eq!(wide(&text), [1, 3, 4, 9]);
}

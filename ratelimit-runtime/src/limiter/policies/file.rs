//! [`PolicyFile`]: policies in a file of TOML or JSON.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::error::RateLimitError;
use crate::rule::{Entries, Policy};

/// How long a file may be: a hundred thousand overrides are shorter.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A file by its path: what is found there may be another file each time.
#[derive(Debug)]
pub(super) struct PolicyFile {
    path: PathBuf,
    format: Format,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    Toml,
    Json,
}

/// What a file holds, or why it cannot be read.
pub(super) type Reading = Result<Vec<u8>, String>;

impl PolicyFile {
    /// The file of this path, whose extension names the format.
    pub(super) fn new(path: PathBuf) -> Result<Self, RateLimitError> {
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Format::Toml,
            Some("json") => Format::Json,
            _ => {
                let message = format!("{}: its name ends in neither `.toml` nor `.json`", path.display());
                return Err(RateLimitError::misconfigured(message));
            }
        };
        Ok(Self { path, format })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it, which may block.
    pub(super) fn read(&self) -> Reading {
        let read = || {
            // To open a pipe would wait for its writer.
            if !fs::metadata(&self.path)?.is_file() {
                return Err(io::Error::other("it is not a file"));
            }
            let mut bytes = Vec::new();
            File::open(&self.path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
            let is_too_long = u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES);
            if is_too_long { Err(io::Error::other("it is longer than 16 MiB")) } else { Ok(bytes) }
        };
        read().map_err(|error| error.to_string())
    }

    /// The policies that were read; or an error message, with the path and the place in the file.
    pub(super) fn policies(&self, reading: &Reading) -> Result<Vec<(String, Policy)>, String> {
        let parsed = reading.as_ref().map_err(Clone::clone).and_then(|bytes| {
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            match self.format {
                Format::Toml => toml::from_str(text).map_err(|error| error.to_string()),
                Format::Json => serde_json::from_str(text).map_err(|error| error.to_string()),
            }
        });
        let Entries(policies) =
            parsed.map_err(|error| format!("{}: {}", self.path.display(), shown(error.trim_end())))?;
        Ok(policies)
    }
}

/// An error message as it is logged: the beginning of each line. It quotes the file, where a line
/// may have megabytes, and characters that steer a terminal.
fn shown(error: &str) -> String {
    const MAX_LINES: usize = 20;
    const MAX_CHARS: usize = 200;
    let mut shown = String::new();
    for (index, line) in error.lines().take(MAX_LINES).enumerate() {
        if index > 0 {
            shown.push('\n');
        }
        let mut chars = line.chars();
        for char in chars.by_ref().take(MAX_CHARS) {
            if char.is_control() { shown.extend(char.escape_default()) } else { shown.push(char) }
        }
        if chars.next().is_some() {
            shown.push('…');
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn error(path: &str, text: &[u8]) -> String {
        PolicyFile::new(path.into()).unwrap().policies(&Ok(text.to_vec())).unwrap_err()
    }

    #[test]
    fn an_error_names_its_place() {
        assert!(error("a/b.toml", b"login = \"5/1m\"\nsearch = \"5/1 parsec\"\n").starts_with("a/b.toml: "));
        assert!(error("b.toml", b"login = \"5/1m\"\nsearch = \"5/1 parsec\"\n").contains("line 2, column 10"));
        assert!(error("b.json", b"{\n\"login\": \"5\"}").contains("line 2 column"));
        assert!(error("b.json", b"\xff").contains("utf-8"));
        assert!(error("b.json", b"[]").contains("expected a table"));
        for path in ["policies", "policies.yaml", "toml"] {
            let error = PolicyFile::new(path.into()).unwrap_err().to_string();
            assert!(error.contains("neither `.toml` nor `.json`"), "{error}");
        }
    }

    #[test]
    fn a_policy_that_is_there_twice_is_found() {
        let twice = PolicyFile::new("b.json".into()).unwrap().policies(&Ok(br#"{"a": "5/1m", "a": "6/1m"}"#.to_vec()));
        assert!(crate::rule::checked(twice.unwrap()).unwrap_err().contains("defined twice"));
        assert!(error("b.toml", b"a = \"5/1m\"\na = \"6/1m\"\n").contains("duplicate key"));
    }

    /// A wrong file by mistake, or one that was meant to do harm.
    #[test]
    fn hostile_text_makes_a_short_message() {
        let long = "x".repeat(100_000);
        for (text, said) in [
            (format!("a = {}", "[".repeat(100_000)), "recurs"),
            (format!("a = {}1{}", "{ b = ".repeat(100_000), "}".repeat(100_000)), "recurs"),
            (format!("a = \"{long}\""), "a limit is `max/window`"),
            (format!("a = \"5/1{long}\""), "`1xxx"),
            (format!("a = \"{long} 5/1m\""), "unknown algorithm"),
            (format!("a = {{ limits = \"5/1m\", overrides = {{ \"<%{long}>\" = 5 }} }}"), "the override of `<%xxx"),
            ("a = \"\\u001b[2J\\u0007/1m\"".to_owned(), "is not a number of calls"),
        ] {
            let error = error("a.toml", text.as_bytes());
            assert!(error.starts_with("a.toml: ") && error.contains(said), "{error}");
            assert!(error.chars().count() < 4_100, "{} characters: {error:.200}", error.len());
            assert!(!error.contains(|char: char| char.is_control() && char != '\n'), "{error:?}");
        }
        let nested = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(error("a.json", nested.as_bytes()).len() < 4_100);
    }

    #[test]
    fn a_path_that_is_no_file_is_not_opened() {
        let folder = std::env::temp_dir();
        let file = PolicyFile { path: folder, format: Format::Toml };
        assert_eq!(file.read().unwrap_err(), "it is not a file");
    }
}

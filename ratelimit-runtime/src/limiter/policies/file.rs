//! [`PolicyFile`]: policies in a file of TOML or JSON.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;

use crate::error::RateLimitError;
use crate::rule::{Entries, Policy};

/// The largest file, in bytes: a hundred thousand overrides take less.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A file by its path, at which each reading may find another file.
#[derive(Debug)]
pub(in crate::limiter) struct PolicyFile {
    pub(super) path: PathBuf,
    parse: fn(&str) -> Result<Entries<Policy>, String>,
}

/// The content of a file, or the reason why it cannot be read.
pub(in crate::limiter) type Reading = Result<Vec<u8>, String>;

impl PolicyFile {
    /// The file of this path, whose extension names the format.
    pub(in crate::limiter) fn new(path: PathBuf) -> Result<Self, RateLimitError> {
        let parse = match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => |text: &_| toml::from_str(text).map_err(|error| error.to_string()),
            Some("json") => {
                |text: &_| serde_json::from_str(text).map_err(|error| error.to_string())
            }
            _ => {
                let message = format!(
                    "{}: its name ends in neither `.toml` nor `.json`",
                    path.display()
                );
                return Err(RateLimitError::misconfigured(message));
            }
        };
        Ok(Self { path, parse })
    }

    /// Reads it, which may block.
    pub(in crate::limiter) fn read(&self) -> Reading {
        let read = || {
            // To open a pipe would wait for its writer.
            if !fs::metadata(&self.path)?.is_file() {
                return Err(io::Error::other("it is not a file"));
            }
            let mut bytes = Vec::new();
            File::open(&self.path)?
                .take(MAX_BYTES + 1)
                .read_to_end(&mut bytes)?;
            if bytes.len() as u64 > MAX_BYTES {
                Err(io::Error::other("it is longer than 16 MiB"))
            } else {
                Ok(bytes)
            }
        };
        read().map_err(|error| error.to_string())
    }

    /// The policies that were read; or an error message, with the path and the place in the file.
    pub(in crate::limiter) fn policies(
        &self,
        reading: &Reading,
    ) -> Result<Vec<(String, Policy)>, String> {
        let parsed = reading.as_ref().map_err(Clone::clone).and_then(|bytes| {
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            // Editors begin files with a byte order mark.
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            (self.parse)(text)
        });
        // An empty file of TOML is complete, and what a writer leaves that was stopped.
        let parsed = parsed.and_then(|Entries(policies)| match policies[..] {
            [] => Err("it holds no policy".to_owned()),
            [..] => Ok(policies),
        });
        parsed.map_err(|error| format!("{}: {}", self.path.display(), shown(error.trim_end())))
    }
}

/// An error message as it is logged: the beginning of its lines. It quotes the file, where a line
/// may have megabytes.
fn shown(error: &str) -> String {
    const MAX_LINES: usize = 20;
    const MAX_CHARS: usize = 200;
    let lines = error.lines().take(MAX_LINES);
    lines
        .map(|line| line.chars().take(MAX_CHARS).collect::<String>())
        .collect::<Vec<_>>()
        .join("\n")
}

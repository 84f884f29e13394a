//! [`ParseError`]: the mistake in a setting given as text.

use std::fmt;

/// The mistake in a limit, policy, rendered key or other setting given as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

impl From<String> for ParseError {
    fn from(message: String) -> Self {
        Self(message)
    }
}

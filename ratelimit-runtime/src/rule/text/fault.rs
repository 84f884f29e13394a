//! What is wrong with a text, and where: errors draw carets, as those of the attribute do.

use crate::parse_error::ParseError;

/// What is wrong with the part `at` of a text.
pub(super) struct Fault<'a> {
    pub(super) at: &'a str,
    pub(super) message: String,
}

impl Fault<'_> {
    /// The message, then `text`, which holds the faulty part, with carets under that.
    pub(super) fn drawn(self, text: &str) -> ParseError {
        let Self { at, message } = self;
        let start = (at.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
        let Some(before) = start.and_then(|start| text.get(..start)).filter(|_| !text.is_empty()) else {
            return message.into();
        };
        let indent = before.chars().count();
        let carets = at.chars().count().max(1);
        format!("{message}\n    {text}\n    {}{}", " ".repeat(indent), "^".repeat(carets)).into()
    }
}

/// The name that `wrong` most likely stands for, if one is near enough, or else the only one that
/// begins so.
pub(crate) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.6;
    const BEGINNING: usize = 3;
    /// What is longer, in bytes, is near no name, and comparing takes memory for each of them.
    const LONGEST: usize = 64;
    if wrong.len() > LONGEST {
        return None;
    }
    let wrong = wrong.to_lowercase();
    let mut best = (ALIKE, None);
    let mut begun = Vec::new();
    for name in names {
        let lower = name.to_lowercase();
        let alike = strsim::normalized_damerau_levenshtein(&wrong, &lower);
        if alike > best.0 {
            best = (alike, Some(name));
        }
        if lower.starts_with(&wrong) {
            begun.push(name);
        }
    }
    best.1.or_else(|| begun.pop().filter(|_| begun.is_empty() && wrong.chars().count() >= BEGINNING))
}

//! Text from outside, for a terminal: what would steer it, or reorder what is read, is written as
//! `\u{…}`.

/// The text with controls, bidirectional marks and other characters without a shape as `\u{…}`.
/// Rendered keys hold no braces, so with them it can be taken back.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character has no shape of its own. A combining mark has one together with the letter
/// in front of it.
pub(crate) fn is_unprintable(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let behind_a_letter: String = ['a', c].into_iter().collect();
    behind_a_letter.escape_debug().count() > 2
}

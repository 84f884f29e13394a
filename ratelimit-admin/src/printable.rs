//! Escapes untrusted text for a terminal: control characters, and characters that change the order
//! of text, are written as `\u{…}`.

/// The text with control characters, bidirectional marks and other invisible characters as `\u{…}`.
/// Rendered keys hold no braces, so the escapes of a key can be decoded.
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

/// In characters. Names that limiters write are shorter.
const LONGEST_NAME: usize = 200;

/// A name that another program may have written, escaped and cut.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => escaped(text.get(..end).unwrap_or_default()) + "…",
        None => escaped(text),
    }
}

/// Each line of an error, escaped: it may quote what servers, files and other programs wrote.
pub(crate) fn of_error(error: &str) -> String {
    let lines: Vec<_> = error.lines().map(escaped).collect();
    lines.join("\n")
}

/// `true` if a character is invisible. A combining mark is visible together with the letter before
/// it.
pub(crate) fn is_unprintable(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    if let '\u{34f}'
    | '\u{115f}'
    | '\u{1160}'
    | '\u{17b4}'
    | '\u{17b5}'
    | '\u{180b}'..='\u{180f}'
    | '\u{2800}'
    | '\u{3164}'
    | '\u{fe00}'..='\u{fe0f}'
    | '\u{ffa0}'
    | '\u{e0100}'..='\u{e01ef}' = c
    {
        // Marks and letters that show nothing: joiners, fillers, selectors of variations.
        return true;
    }
    let behind_a_letter: String = ['a', c].into_iter().collect();
    behind_a_letter.escape_debug().count() > 2
}

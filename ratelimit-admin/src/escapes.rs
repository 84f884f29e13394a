//! Decodes the escapes in printed keys, and escapes JSON for a terminal.

use crate::printable::is_unprintable;

/// The text that [`escaped`](crate::printable::escaped) has escaped.
pub(crate) fn unescaped(text: &str) -> String {
    let mut parts = text.split(r"\u{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.split_once('}').and_then(|(digits, rest)| {
            let c = u32::from_str_radix(digits, 16)
                .ok()
                .and_then(char::from_u32)?;
            Some((c, rest))
        });
        if let Some((c, rest)) = code {
            out.push(c);
            out.push_str(rest);
        } else {
            out.push_str(r"\u{");
            out.push_str(part);
        }
    }
    out
}

/// Escapes the characters in JSON that would control a terminal.
pub(crate) fn in_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) {
            out.extend(
                c.encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}")),
            );
        } else {
            out.push(c);
        }
    }
    out
}

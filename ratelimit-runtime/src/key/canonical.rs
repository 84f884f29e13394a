//! Whether a text is a rendered key: character for character what [`KeyWriter`](super::KeyWriter)
//! writes for some values.

use super::buf::{KeyBuf, MAX_PART};
use super::writer::{Place, escape_into};

/// How long a digest is, in hexadecimal digits.
const DIGEST: usize = 32;

/// Whether some template and some values render to this text. There is at least one value in it.
pub(crate) fn is_canonical(rendered: &str) -> bool {
    let mut parts = rendered.split('<');
    let mut has_value = false;
    parts.next().is_some_and(|text| is_escaped(text, Place::Template))
        && parts.all(|part| {
            has_value = true;
            part.split_once('>').is_some_and(|(value, text)| is_value(value) && is_escaped(text, Place::Template))
        })
        && has_value
}

/// What stands between the brackets of a value: items, between commas.
fn is_value(value: &str) -> bool {
    if value.strip_prefix("##").is_some_and(is_digest) {
        return true;
    }
    let mut groups = 0_usize;
    let mut rest = value;
    if value.len() > MAX_PART {
        return false;
    }
    // An item is a text, a digest, or a group behind its name; a group that ends is the end of one.
    let mut is_after_group = false;
    loop {
        let end = rest.find(['(', ')', ',']).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        let next = after.chars().next();
        let is_item = match text {
            _ if is_after_group => text.is_empty() && next != Some('('),
            "%-" => next == Some(')') && before(value, rest) == Some('('),
            _ => {
                let digest = text.strip_prefix('#').is_some_and(is_digest) && next != Some('(');
                digest || is_escaped(text, Place::Value)
            }
        };
        if !is_item {
            return false;
        }
        match next {
            None => return groups == 0,
            Some('(') => groups += 1,
            Some(')') if groups == 0 => return false,
            Some(')') => groups -= 1,
            Some(_) => {}
        }
        is_after_group = next == Some(')');
        rest = after.get(1..).unwrap_or_default();
    }
}

/// The character of `all` in front of `rest`, which ends it.
fn before(all: &str, rest: &str) -> Option<char> {
    all.strip_suffix(rest)?.chars().next_back()
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGEST && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether the text is what it reads as, escaped: nothing more than has to be, and nothing less.
fn is_escaped(text: &str, place: Place) -> bool {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.split_first_chunk::<2>().map(|(digits, after)| {
            rest = after;
            std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok())
        });
        let Some(Some(escaped)) = digits else { return false };
        bytes.push(escaped);
    }
    let mut escaped = KeyBuf::new();
    escape_into(&mut escaped, &bytes, place);
    *escaped == *text.as_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::key::{Key, KeyBuilder, KeyPart, KeyWriter};

    #[test]
    fn what_no_values_render_to_is_told() {
        for rendered in [
            "<alice@example.com>",
            "<acme>/<7>",
            "user:<>",
            "<()>",
            "<a,b>",
            "<point(1,2)>",
            "<some((a,none()))>",
            "<some(%-)>",
            "<Zoë 1/2>",
            "<2001:db8:1:2::/64>",
            "<#fdb7f3c40645e79ca4c5d1638753243c>",
            "<a,#fdb7f3c40645e79ca4c5d1638753243c>",
            "<##074d1dfbc64de4c6bd938914aff2f1b2>",
            "<%FFa%00>",
            "<,>",
        ] {
            assert!(is_canonical(rendered), "{rendered}");
        }
        for text in [
            "",
            "alice@example.com",
            "#fdb7f3c40645e79ca4c5d1638753243c",
            "<a",
            "a>",
            "<<a>>",
            "<a>>",
            "<{a}>",
            "{a}<a>",
            "<a\n>",
            "<%61>",
            "<%ff>",
            "<%7b>",
            "<%>",
            "<%2>",
            "<%-,a>",
            "<%->",
            "<a(%-,b)>",
            "<a(>",
            "<a)>",
            "<a(b)c>",
            "<a(b)(c)>",
            "<#12>",
            "<a#b>",
            "<#fdb7f3c40645e79ca4c5d1638753243C>",
            "<##074d>",
            "<%+1>",
            "%3c<a>",
        ] {
            assert!(!is_canonical(text), "{text}");
        }
        assert!(is_canonical(&format!("<{}>", "x".repeat(160))));
        assert!(!is_canonical(&format!("<{}>", "x".repeat(161))));
    }

    /// Values of every shape that a [`KeyWriter`] can be asked to write.
    #[derive(Debug, Clone)]
    enum Value {
        Bytes(Vec<u8>),
        Items(Vec<Value>),
        Group(String, Vec<Value>),
    }

    impl KeyPart for Value {
        fn write_key(&self, key: &mut KeyWriter<'_>) {
            match self {
                Self::Bytes(bytes) => key.bytes(bytes),
                Self::Items(items) => items.iter().for_each(|item| key.part(item)),
                Self::Group(name, items) => key.group(name, |group| items.iter().for_each(|item| group.part(item))),
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let bytes = prop_oneof![
            vec(any::<u8>(), 0..8).prop_map(Value::Bytes),
            "[a-c<>{}(),#%é]{0,6}".prop_map(|text| Value::Bytes(text.into_bytes())),
            vec(Just(b'x'), 155..165).prop_map(Value::Bytes),
        ];
        bytes.prop_recursive(3, 12, 4, |value| {
            prop_oneof![
                vec(value.clone(), 0..4).prop_map(Value::Items),
                ("[a-c(#%]{0,3}", vec(value, 0..4)).prop_map(|(name, items)| Value::Group(name, items)),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_rendered_is_a_rendering(text in "[a<{%\n#(é]{0,4}", values in vec(values(), 1..3)) {
            let mut key = KeyBuilder::new();
            let text: &'static str = Box::leak(text.into_boxed_str());
            for value in &values {
                key.text(text);
                key.part(value);
            }
            let rendered = String::from_utf8(key.finish().as_bytes().to_vec()).unwrap_or_default();
            prop_assert!(is_canonical(&rendered), "{rendered}");
            prop_assert_eq!(Key::from_rendered(&rendered).map(|key| key.as_bytes().to_vec()), Ok(rendered.into_bytes()));
        }
    }
}

//! [`Record`]: one line of a log, as fields with names.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The fields of a line.
pub(super) enum Record<'a> {
    Object(Map<String, Value>),
    /// Names and values.
    Words(Vec<(&'a str, Cow<'a, str>)>),
}

impl Record<'_> {
    /// The field of this name, in which case does not matter and `-` is `_`. A name with dots is a
    /// path through nested objects and arrays.
    pub(super) fn get(&self, name: &str) -> Result<Option<Cow<'_, str>>, String> {
        match self {
            Self::Words(words) => {
                let found = words.iter().filter(|(known, _)| same(known, name));
                let mut values = found.map(|(_, value)| &**value);
                let first = values.next();
                // One of them may be what a client has sent.
                if values.any(|value| first != Some(value)) {
                    return Err(format!("it has several fields `{name}`"));
                }
                Ok(first.map(Cow::Borrowed))
            }
            Self::Object(object) => match nested(object, name) {
                None | Some(Value::Null) => Ok(None),
                Some(value) => text(value)
                    .map(Some)
                    .ok_or_else(|| format!("`{name}` is neither text nor a number")),
            },
        }
    }

    /// The names of the fields, if all lines of the format have the same.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let words = match self {
            Self::Object(_) => &[][..],
            Self::Words(words) => words,
        };
        words.iter().map(|(name, _)| *name)
    }
}

/// The same name, as headers and variables of servers write it.
pub(super) fn same(one: &str, other: &str) -> bool {
    let folded = |byte: u8| match byte {
        b'_' => b'-',
        _ => byte.to_ascii_lowercase(),
    };
    one.bytes().map(folded).eq(other.bytes().map(folded))
}

fn nested<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let member = |name: &str| {
        object.get(name).or_else(|| {
            let mut members = object.iter().filter(|(known, _)| same(known, name));
            members.next().map(|(_, value)| value)
        })
    };
    let dots = name.match_indices('.').map(|(at, _)| name.split_at(at));
    member(name).or_else(|| {
        dots.into_iter()
            .find_map(|(outer, inner)| within(member(outer)?, inner.get(1..)?))
    })
}

fn within<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(object) => nested(object, name),
        Value::Array(values) => {
            let (index, inner) = name.split_once('.').unwrap_or((name, ""));
            let value = values.get(index.parse::<usize>().ok()?)?;
            if inner.is_empty() {
                Some(value)
            } else {
                within(value, inner)
            }
        }
        _ => None,
    }
}

/// A text, a number, or a list of them, as the values of a header field.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Array(values) if !values.is_empty() => {
            let texts: Option<Vec<_>> = values.iter().map(|value| value.as_str()).collect();
            Some(texts?.join(", ").into())
        }
        _ => None,
    }
}

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
    /// The field of this name, regardless of its case, `-` and `_`. A name with dots is a path
    /// through nested objects and arrays.
    pub(super) fn get(&self, name: &str) -> Result<Option<Cow<'_, str>>, String> {
        match self {
            Self::Words(words) => {
                let values = words.iter().filter(|(known, _)| same(known, name));
                let value = only(values.map(|(_, value)| &**value), name)?;
                Ok(value.map(Cow::Borrowed))
            }
            Self::Object(object) => match nested(object, name)? {
                None | Some(Value::Null) => Ok(None),
                Some(value) => text(value)
                    .map(Some)
                    .ok_or_else(|| format!("`{name}` is neither text nor a number")),
            },
        }
    }

    /// The fields with their values; those of nested objects and arrays by their paths.
    pub(super) fn fields(&self) -> Vec<(String, Cow<'_, str>)> {
        let mut fields = Vec::new();
        match self {
            Self::Object(object) => add_members(object, "", &mut fields),
            Self::Words(words) => {
                let words = words.iter();
                fields.extend(words.map(|(name, value)| ((*name).to_owned(), (&**value).into())));
            }
        }
        fields
    }
}

/// `true` if two names are the same in the spellings of headers and server variables: `client_ip`,
/// `Client-IP`, `clientIp`.
pub(super) fn same(one: &str, other: &str) -> bool {
    fn folded(name: &str) -> impl Iterator<Item = u8> {
        let bytes = name.bytes().filter(|byte| !matches!(byte, b'-' | b'_'));
        bytes.map(|byte| byte.to_ascii_lowercase())
    }
    folded(one).eq(folded(other))
}

/// The value of a name; an error if there are several, of which a client may have sent one.
fn only<T: PartialEq>(
    mut values: impl Iterator<Item = T>,
    name: &str,
) -> Result<Option<T>, String> {
    let first = values.next();
    if values.any(|value| Some(&value) != first.as_ref()) {
        return Err(format!("it has several fields `{name}`"));
    }
    Ok(first)
}

fn nested<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Option<&'a Value>, String> {
    let member = |name: &str| {
        let members = object.iter().filter(|(known, _)| same(known, name));
        only(members.map(|(_, value)| value), name)
    };
    if let Some(value) = member(name)? {
        return Ok(Some(value));
    }
    for (at, _) in name.match_indices('.') {
        let (outer, inner) = name.split_at(at);
        if let (Some(outer), Some(inner)) = (member(outer)?, inner.get(1..))
            && let Some(value) = within(outer, inner)?
        {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn within<'a>(value: &'a Value, name: &str) -> Result<Option<&'a Value>, String> {
    match value {
        Value::Object(object) => nested(object, name),
        Value::Array(values) => {
            let (index, inner) = name.split_once('.').unwrap_or((name, ""));
            match index.parse::<usize>().ok().and_then(|at| values.get(at)) {
                Some(value) if !inner.is_empty() => within(value, inner),
                value => Ok(value),
            }
        }
        _ => Ok(None),
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

fn add_members<'a>(
    object: &'a Map<String, Value>,
    path: &str,
    fields: &mut Vec<(String, Cow<'a, str>)>,
) {
    for (name, value) in object {
        add(value, format!("{path}{name}"), fields);
    }
}

fn add<'a>(value: &'a Value, path: String, fields: &mut Vec<(String, Cow<'a, str>)>) {
    match (text(value), value) {
        (Some(text), _) => fields.push((path, text)),
        (None, Value::Object(object)) => add_members(object, &format!("{path}."), fields),
        (None, Value::Array(values)) => {
            for (at, value) in values.iter().enumerate() {
                add(value, format!("{path}.{at}"), fields);
            }
        }
        _ => {}
    }
}

//! JSON, one object per line: logs of nginx and Caddy, or your own.

use std::borrow::Cow;
use std::io::{self, BufRead};

use serde_json::{Map, Value};

use super::{Fields, Read, client, each_line, path};
use crate::replay::arguments::Input;

/// The servers' names for the time, the client's address and the user. Names of nested fields, as
/// Caddy has them, contain a dot.
const TIMES: &[&str] = &[
    "time",
    "ts",
    "time_iso8601",
    "time_local",
    "msec",
    "timestamp",
    "@timestamp",
];
const ADDRESSES: &[&str] = &[
    "address",
    "request.client_ip",
    "request.remote_ip",
    "client_ip",
    "remote_addr",
    "remote_ip",
];
const USERS: &[&str] = &["user", "user_id", "remote_user"];
const PATHS: &[&str] = &["path", "request.uri", "request_uri", "uri"];

pub(super) fn read(from: impl BufRead, input: &Input, read: &mut Read) -> io::Result<()> {
    each_line(from, |number, line| {
        let object = serde_json::from_slice::<Map<String, Value>>(line);
        let fields = match &object {
            Ok(object) => fields(object, input),
            Err(error) => Err(format!(
                "it is not a JSON object, at column {}",
                error.column()
            )),
        };
        read.line(number, input, fields);
    })
}

fn fields<'a>(object: &'a Map<String, Value>, input: &Input) -> Result<Fields<'a>, String> {
    let time = match &input.time_field {
        Some(name) => text(object, name)?,
        None => first(object, TIMES)?,
    };
    let key = match input.key_field.as_deref() {
        None => match text(object, "key")? {
            Some(key) => Some(key),
            None => first(object, ADDRESSES)?.map(client),
        },
        Some(name) => match text(object, name)? {
            Some(key) => Some(key),
            None => by_role(object, name)?,
        },
    };
    let missing = |name: &Option<String>, usual: &str| {
        format!("it has no `{}`", name.as_deref().unwrap_or(usual))
    };
    Ok(Fields {
        time: time.ok_or_else(|| missing(&input.time_field, "time"))?,
        key: key.ok_or_else(|| missing(&input.key_field, "key"))?,
        status: text(object, "status")?,
        cost: text(object, &input.cost_field)?,
        actual_cost: text(object, &input.actual_cost_field)?,
    })
}

/// The key for `address`, `user`, `path` or the name of a header, by the server's names for them.
fn by_role<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    match name {
        "address" => Ok(first(object, ADDRESSES)?.map(client)),
        "user" => first(object, USERS),
        "path" => {
            let target = match first(object, PATHS)? {
                Some(target) => Some(target),
                // `GET /path HTTP/1.1`
                None => object
                    .get("request")
                    .and_then(Value::as_str)
                    .and_then(|line| line.split(' ').nth(1))
                    .map(Cow::Borrowed),
            };
            Ok(target.map(|target| path(&target).to_owned().into()))
        }
        header => {
            let of_caddy = object
                .get("request")
                .and_then(|request| request.get("headers"))
                .and_then(Value::as_object);
            let mut values = of_caddy
                .into_iter()
                .flatten()
                .filter(|(name, _)| name.eq_ignore_ascii_case(header));
            match values
                .next()
                .and_then(|(_, values)| values.get(0))
                .and_then(Value::as_str)
            {
                Some(value) => Ok(Some(value.into())),
                None => text(
                    object,
                    &format!("http_{}", header.to_ascii_lowercase().replace('-', "_")),
                ),
            }
        }
    }
}

/// The first of these fields that is present and not empty.
fn first<'a>(
    object: &'a Map<String, Value>,
    names: &[&str],
) -> Result<Option<Cow<'a, str>>, String> {
    for name in names {
        match text(object, name)? {
            Some(text) if !text.is_empty() && text != "-" => return Ok(Some(text)),
            _ => {}
        }
    }
    Ok(None)
}

/// The field of this name; a name with a dot is a field of a nested object.
fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    let field = object.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        object.get(outer)?.get(inner)
    });
    match field {
        Some(Value::String(text)) => Ok(Some(Cow::Borrowed(text.as_str()))),
        Some(Value::Number(number)) => Ok(Some(Cow::Owned(number.to_string()))),
        Some(Value::Null) | None => Ok(None),
        Some(_) => Err(format!("`{name}` is neither text nor a number")),
    }
}

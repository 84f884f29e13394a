//! What a server replies to `INFO`.

use redis::Value;

/// The text of a reply, which is in the form of either protocol.
pub(super) fn text(reply: &Value) -> Option<&str> {
    match reply {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// The value of a field.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|entry| entry.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

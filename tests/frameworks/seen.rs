//! An answer as a client sees it, read by a parser of structured fields from elsewhere.

#![allow(unreachable_pub, reason = "a module of several tests")]

use sfv::{BareItem, List, ListEntry, Parser};

/// One item of a list of a field: its name, and its numbers by their names.
pub type Item = (String, Vec<(String, i64)>);

/// A field as a client reads it.
pub fn parsed<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Item> {
    let whole = lines.into_iter().collect::<Vec<_>>().join(", ");
    if whole.is_empty() {
        return Vec::new();
    }
    let list: List = Parser::new(&whole)
        .parse()
        .unwrap_or_else(|error| panic!("{whole}: {error}"));
    let item = |entry: ListEntry| {
        let ListEntry::Item(item) = entry else {
            panic!("{whole}: a list in a list")
        };
        let BareItem::String(name) = item.bare_item else {
            panic!("{whole}: names are strings")
        };
        let number = |(key, value): (_, BareItem)| -> (String, i64) {
            let BareItem::Integer(value) = value else {
                panic!("{whole}: numbers are whole")
            };
            (sfv::Key::to_string(&key), value.into())
        };
        (
            name.as_str().to_owned(),
            item.params.into_iter().map(number).collect(),
        )
    };
    list.into_iter().map(item).collect()
}

pub fn item(name: &str, numbers: &[(&str, i64)]) -> Item {
    (
        name.to_owned(),
        numbers
            .iter()
            .map(|&(key, value)| (key.to_owned(), value))
            .collect(),
    )
}

/// What `RateLimit-Policy` says of a rule: so many in a window of so many seconds.
pub fn policy(name: &str, max: i64, window: i64) -> Item {
    item(name, &[("q", max), ("w", window)])
}

/// What `RateLimit` says of a rule: so many are left, and all of them after so many seconds.
pub fn standing(name: &str, left: i64, time: i64) -> Item {
    item(name, &[("r", left), ("t", time)])
}

/// An answer as a client sees it.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub status: u16,
    pub policies: Vec<Item>,
    pub standings: Vec<Item>,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, as far as they are there.
    pub legacy: Vec<String>,
    pub retry_after: Option<String>,
    /// Whether caches are told to leave it alone.
    pub no_store: bool,
    pub body: String,
}

impl Seen {
    pub fn new(status: u16, field: impl Fn(&str) -> Vec<String>, body: String) -> Self {
        let line = |name: &str| {
            let lines = field(name);
            assert!(lines.len() < 2, "{name}: {lines:?}");
            lines.into_iter().next()
        };
        let list = |name| parsed(line(name).as_deref());
        let legacy = ["limit", "remaining", "reset"];
        let legacy = legacy.map(|name| line(&format!("x-ratelimit-{name}")));
        Self {
            status,
            policies: list("ratelimit-policy"),
            standings: list("ratelimit"),
            legacy: legacy.into_iter().flatten().collect(),
            retry_after: line("retry-after"),
            no_store: field("cache-control") == ["no-store"],
            body,
        }
    }
}

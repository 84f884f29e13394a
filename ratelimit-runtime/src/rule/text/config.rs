//! Policies as configuration files write them: a line of text where there are only
//! limits, or a table of all settings.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::{duration, finished, limits_in};
use crate::parse_error::ParseError;
use crate::rule::algorithm::Algorithm;
use crate::rule::block::BlockDuration;
use crate::rule::on_unavailable::OnUnavailable;
use crate::rule::policy::Policy;
use crate::rule::policy::overrides::{Override, Overrides, key_as_listed};
use crate::rule::terms::Terms;

/// Reads a string as for [`FromStr`], or a table of `limits` (a string, or a list), `algorithm`,
/// `zone`, `burst`, `block`, `wait`, `prefetch`, `timeout`, `on_unavailable`, `concurrent`,
/// `lease`, `shadow` and `overrides`.
impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PolicyVisitor)
    }
}

struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = Policy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("limits such as \"5/1m, 50/1d\", or a table of `limits`, `algorithm`, `burst`, `block` and more")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Policy, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Policy, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(fields))?;
        let algorithm = table.algorithm.unwrap_or_default();
        let mut terms = table.limits.with_algorithm(algorithm);
        terms.block = table.block.unwrap_or_default();
        terms.shadow = table.shadow;
        terms.wait = table.wait;
        terms.timeout = table.timeout;
        terms.on_unavailable = table.on_unavailable;
        terms.concurrent = table.concurrent;
        terms.lease = table.lease;
        let policy = Policy {
            terms: table
                .prefetch
                .map_or(terms, |lease| terms.with_prefetch(lease)),
            overrides: table.overrides,
            zone: table.zone,
        };
        finished(policy, table.burst).map_err(Error::custom)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(deserialize_with = "limits")]
    limits: Terms,
    #[serde(default, deserialize_with = "text")]
    algorithm: Option<Algorithm>,
    burst: Option<u64>,
    #[serde(default, deserialize_with = "text")]
    block: Option<BlockDuration>,
    #[serde(default, deserialize_with = "time")]
    wait: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    prefetch: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    timeout: Option<Duration>,
    #[serde(default, deserialize_with = "text")]
    on_unavailable: Option<OnUnavailable>,
    concurrent: Option<u64>,
    #[serde(default, deserialize_with = "time")]
    lease: Option<Duration>,
    shadow: Option<bool>,
    #[serde(default, deserialize_with = "overrides")]
    overrides: Overrides,
    zone: Option<String>,
}

/// Limits such as `5/1m, 50/1d`, in one string or several.
#[derive(serde::Deserialize)]
#[serde(
    untagged,
    expecting = "expected limits such as \"5/1m, 50/1d\", or a list of them"
)]
enum Limits {
    Line(String),
    List(Vec<String>),
}

fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Terms, D::Error> {
    match Limits::deserialize(deserializer)? {
        Limits::Line(line) => limits_in(line.split(',')),
        Limits::List(limits) => limits_in(limits.iter().map(String::as_str)),
    }
    .map_err(Error::custom)
}

/// Reads a value from its text.
fn text<'de, T: FromStr<Err = ParseError>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map(Some)
        .map_err(Error::custom)
}

/// Reads a duration from its text.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let read = duration::read(&String::deserialize(deserializer)?);
    read.map(Some).map_err(Error::custom)
}

/// An [`Override`] as a configuration writes it: a `max`, or a table.
#[derive(serde::Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number of calls, a list of them, or a table of `max` and `burst`"
)]
pub(in crate::rule) enum Numbers {
    Max(Max),
    Table(NumbersTable),
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::rule) struct NumbersTable {
    max: Option<Max>,
    burst: Option<u64>,
}

/// The `max` of one limit, or of each limit.
#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(in crate::rule) enum Max {
    One(u64),
    Each(Vec<u64>),
}

impl From<Numbers> for Override {
    fn from(numbers: Numbers) -> Self {
        let (max, burst) = match numbers {
            Numbers::Max(max) => (Some(max), None),
            Numbers::Table(NumbersTable { max, burst }) => (max, burst),
        };
        let values = match max {
            Some(Max::One(max)) => Self::max(max),
            Some(Max::Each(max)) => Self::max_of_each(max),
            None => Self::max_of_each([]),
        };
        burst.map_or_else(|| values.clone(), |burst| values.clone().with_burst(burst))
    }
}

/// Reads a table of overrides by key.
fn overrides<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Overrides, D::Error> {
    let mut overrides = Overrides::new();
    for (text, values) in Entries::deserialize(deserializer)?.0 {
        let about = |message| {
            Error::custom(format!(
                "the override of `{}`: {message}",
                text.escape_debug()
            ))
        };
        if overrides
            .insert(key_as_listed(&text).map_err(about)?, values)
            .is_some()
        {
            return Err(about("there is one already".to_owned()));
        }
    }
    Ok(overrides)
}

/// A table by name, which keeps repeated names.
pub(crate) struct Entries<V>(pub(crate) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
    type Value = Entries<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Entries<V>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = fields.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

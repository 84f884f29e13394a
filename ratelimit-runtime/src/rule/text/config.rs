//! Policies as configuration files write them: a string, a list of limits, or a table.

use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use smallvec::SmallVec;

use super::fault::ParseError;
use super::{Parts, block, duration, limits_in};
use crate::rule::limit::Limit;
use crate::rule::policy::Policy;
use crate::rule::policy::overrides::{Override, Overrides, key_as_listed};

/// A string as for [`FromStr`](std::str::FromStr), a list of limits, or a table of `limits`,
/// `algorithm`, `zone`, `burst`, `block`, `wait`, `timeout`, `on_unavailable`, `shadow` and
/// `overrides`.
impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PolicyVisitor)
    }
}

struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = Policy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "limits such as \"5/1m, 50/1d\", a list of them, or a table of `limits`, `algorithm`, `burst`, `block` and more",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Policy, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Policy, A::Error> {
        let limits = LimitsVisitor.visit_seq(items)?.0;
        Parts::of(limits).policy().map_err(|(_, message)| de::Error::custom(message))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Policy, A::Error> {
        let Table { limits, algorithm, burst, block, wait, timeout, on_unavailable, shadow, overrides, zone } =
            Table::deserialize(MapAccessDeserializer::new(fields))?;
        let parts = Parts {
            algorithm: read(algorithm.as_deref(), str::parse)?.unwrap_or_default(),
            burst,
            block: read(block.as_deref(), |text| block::read(text).map_err(|fault| fault.drawn(text)))?,
            wait: read(wait.as_deref(), time)?,
            timeout: read(timeout.as_deref(), time)?,
            on_unavailable: read(on_unavailable.as_deref(), str::parse)?,
            shadow,
            overrides: overrides.unwrap_or_default(),
            zone,
            ..Parts::of(limits.0)
        };
        parts.policy().map_err(|(_, message)| de::Error::custom(message))
    }
}

/// A policy as a table, with words in the place of what they mean.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    limits: Limits,
    algorithm: Option<String>,
    burst: Option<u64>,
    block: Option<String>,
    wait: Option<String>,
    timeout: Option<String>,
    on_unavailable: Option<String>,
    shadow: Option<bool>,
    overrides: Option<Overrides>,
    zone: Option<String>,
}

/// What a text means, if there is one.
fn read<T, E: de::Error>(
    text: Option<&str>,
    meaning: impl FnOnce(&str) -> Result<T, ParseError>,
) -> Result<Option<T>, E> {
    text.map(meaning).transpose().map_err(E::custom)
}

fn time(text: &str) -> Result<Duration, ParseError> {
    duration::read(text).map_err(|fault| fault.drawn(text))
}

/// A table of overrides, each under the key that has it.
impl<'de> Deserialize<'de> for Overrides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OverridesVisitor)
    }
}

struct OverridesVisitor;

impl<'de> Visitor<'de> for OverridesVisitor {
    type Value = Overrides;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of keys, each with its own `max` and `burst`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Overrides, A::Error> {
        let mut overrides = Overrides::default();
        while let Some(text) = fields.next_key::<String>()? {
            let about = |message| de::Error::custom(format!("the override of `{}`: {message}", text.escape_debug()));
            let key = key_as_listed(&text).map_err(about)?;
            if overrides.insert(key, fields.next_value()?).is_some() {
                return Err(about("there is one already".to_owned()));
            }
        }
        Ok(overrides)
    }
}

/// A number, which is `max`; a list of them, one for each limit; or a table of `max` and `burst`.
impl<'de> Deserialize<'de> for Override {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OverrideVisitor)
    }
}

struct OverrideVisitor;

impl<'de> Visitor<'de> for OverrideVisitor {
    type Value = Override;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of calls, a list of them, or a table of `max` and `burst`")
    }

    fn visit_u64<E: de::Error>(self, max: u64) -> Result<Override, E> {
        Ok(Override::max(max))
    }

    fn visit_i64<E: de::Error>(self, max: i64) -> Result<Override, E> {
        u64::try_from(max).map(Override::max).map_err(|_| E::custom("a limit cannot be negative: write 1 or more"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Override, A::Error> {
        let mut max = SmallVec::<[u64; 2]>::new();
        while let Some(item) = items.next_element()? {
            max.push(item);
        }
        Ok(Override::max_of_each(max))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Override, A::Error> {
        let OverrideTable { max, burst } = OverrideTable::deserialize(MapAccessDeserializer::new(fields))?;
        Ok(match (max, burst) {
            (Some(values), Some(burst)) => values.0.with_burst(burst),
            (Some(values), None) => values.0,
            (None, Some(burst)) => Override::burst(burst),
            (None, None) => Override::max_of_each([]),
        })
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideTable {
    max: Option<Maxima>,
    burst: Option<u64>,
}

/// `max` of each limit: a number, or a list of them.
struct Maxima(Override);

impl<'de> Deserialize<'de> for Maxima {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MaximaVisitor).map(Self)
    }
}

struct MaximaVisitor;

impl<'de> Visitor<'de> for MaximaVisitor {
    type Value = Override;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of calls, or a list of them")
    }

    fn visit_u64<E: de::Error>(self, max: u64) -> Result<Override, E> {
        OverrideVisitor.visit_u64(max)
    }

    fn visit_i64<E: de::Error>(self, max: i64) -> Result<Override, E> {
        OverrideVisitor.visit_i64(max)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Override, A::Error> {
        OverrideVisitor.visit_seq(items)
    }
}
/// Limits without what goes with them: a string such as `"5/1m, 50/1d"`, or a list.
struct Limits(SmallVec<[Limit; 2]>);

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitsVisitor)
    }
}

struct LimitsVisitor;

impl<'de> Visitor<'de> for LimitsVisitor {
    type Value = Limits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("limits such as \"5/1m, 50/1d\", or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Limits, E> {
        limits_in(text).map(Limits).map_err(|fault| E::custom(fault.drawn(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Limits, A::Error> {
        let mut limits = SmallVec::new();
        while let Some(item) = items.next_element::<String>()? {
            limits.push(item.parse().map_err(de::Error::custom)?);
        }
        Ok(Limits(limits))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::HashMap;
    use std::time::Duration;

    use super::*;
    use crate::key::Key;
    use crate::rule::{Algorithm, OnUnavailable};

    type Policies = HashMap<String, Policy>;

    #[test]
    fn policies_come_from_toml_and_json() {
        let toml = r#"
            login = "5/1m, 50/1d"
            upload = ["1_000/1h"]
            api = { limits = "100/1s", algorithm = "token_bucket", burst = 20, block = "10m" }
            strict = { limits = "5/1m", block = "1m..1h" }
        "#;
        let json = r#"{
            "login": ["5/1m", "50/1d"],
            "upload": { "limits": ["1000/60m"] },
            "api": "token_bucket 100/1s burst 20 block 600s",
            "strict": "5/1m block 60s..60m"
        }"#;
        let from_toml: Policies = toml::from_str(toml).unwrap();
        assert_eq!(from_toml, serde_json::from_str::<Policies>(json).unwrap());
        let api = Policy::new(Limit::per_second(100).with_burst(20))
            .with_algorithm(Algorithm::TokenBucket)
            .with_block(Duration::from_secs(600));
        let [minute, hour] = [60, 3600].map(Duration::from_secs);
        let strict = Policy::new(Limit::per_minute(5)).with_growing_block(minute, hour);
        assert_eq!(from_toml.get("strict"), Some(&strict));
        assert_eq!(from_toml.get("api"), Some(&api));
        assert_eq!(from_toml.get("login"), Some(&Policy::new(Limit::per_minute(5)).and(Limit::per_day(50))));
    }

    #[test]
    fn a_table_says_all_that_operators_decide() {
        let toml = r#"
            [api]
            limits = "10/1s, 100/1m"
            shadow = false
            wait = "2s"
            timeout = "50ms"
            on_unavailable = "deny"
            overrides = { "<acme>/<7>" = [100, 1_000], '<a\u{202e}b>' = { max = [1, 2] } }

            [upload]
            limits = "10/1s"
            algorithm = "token_bucket"
            shadow = true
            overrides."<acme>" = { max = 20, burst = 50 }
            overrides."<bob>" = { burst = 1 }
            overrides."<eve>" = 1
        "#;
        let read: Policies = toml::from_str(toml).unwrap();
        let key = |text| Key::from_rendered(text).unwrap();
        let api = Policy::new(Limit::per_second(10))
            .and(Limit::per_minute(100))
            .with_shadow(false)
            .with_wait(Duration::from_secs(2))
            .with_timeout(Duration::from_millis(50))
            .with_on_unavailable(OnUnavailable::Deny)
            .with_override(&key("<acme>/<7>"), Override::max_of_each([100, 1_000]))
            .with_override(&key("<a\u{202e}b>"), Override::max_of_each([1, 2]));
        let upload = Policy::new(Limit::per_second(10))
            .with_algorithm(Algorithm::TokenBucket)
            .with_shadow(true)
            .with_override(&key("<acme>"), Override::max(20).with_burst(50))
            .with_override(&key("<bob>"), Override::burst(1))
            .with_override(&key("<eve>"), Override::max(1));
        assert_eq!(read, Policies::from([("api".to_owned(), api), ("upload".to_owned(), upload)]));
    }

    #[test]
    fn mistakes_are_named() {
        for (json, expected) in [
            (r#""5""#, "write \"3/60s\""),
            (r#""x/1m""#, "`x` is not a number of calls"),
            (r#""0/1m""#, "refuses every call"),
            (r#""5/1 parsec""#, "unknown unit `parsec`"),
            (r#""5/1us""#, "at least one millisecond"),
            (r#""5/53w""#, "at most 366 days"),
            (r#""5/1month""#, "write \"30d\""),
            ("[]", "at least one limit"),
            ("5", "a list of them"),
            (r#"{"limits": "5/1m", "brust": 5}"#, "unknown field `brust`"),
            (r#"{"algorithm": "fixed_window"}"#, "missing field `limits`"),
            (r#"{"limits": "5/1m", "algorithm": "gcra"}"#, "did you mean \"leaky_bucket\"?"),
            (r#"{"limits": "fixed_window 5/1m"}"#, "`fixed_window 5` is not a number of calls"),
            (r#"{"limits": {"limits": "5/1m", "block": "1m"}}"#, "or a list of them"),
            (r#"{"limits": []}"#, "at least one limit"),
            (r#"{"limits": "5/1m", "burst": 5}"#, "goes with token_bucket"),
            (r#"{"limits": "5/1m, 9/1h", "algorithm": "token_bucket", "burst": 5}"#, "one limit"),
            (r#"{"limits": "5/1m", "block": "5"}"#, "has no unit after `5`"),
            (r#"{"limits": "5/1m", "block": "0s"}"#, "no time at all"),
            (r#"{"limits": "5/1m", "wait": "2s", "block": "1m"}"#, "either waits or is blocked"),
            (r#"{"limits": "5/1m", "wait": "2s", "shadow": true}"#, "`wait` is never used"),
            (r#"{"limits": "5/1m", "wait": "2h"}"#, "from \"1ms\" to \"1h\""),
            (r#"{"limits": "5/1m", "timeout": "2m"}"#, "from \"1ms\" to \"60s\""),
            (r#"{"limits": "5/1m", "timeout": "0s"}"#, "from \"1ms\" to \"60s\""),
            (r#"{"limits": "5/1m", "on_unavailable": "open"}"#, "did you mean \"allow\"?"),
            (r#"{"limits": "5/1m", "shadow": "yes"}"#, "expected a boolean"),
            (r#"{"limits": "5/1m", "overrides": {"alice": 9}}"#, "did you mean `<alice>`?"),
            (r#"{"limits": "5/1m", "overrides": {"<a/b": 9}}"#, "each value in its brackets"),
            (r#"{"limits": "5/1m", "overrides": {"<%61>": 9}}"#, "the override of `<%61>`: no call has this key"),
            (r##"{"limits": "5/1m", "overrides": {"#fdb7f3c40645e79ca4c5d1638753243c": 9}}"##, "this key is hashed"),
            (r#"{"limits": "5/1m", "overrides": {"": 9}}"#, "no call has this key"),
            (r#"{"limits": "5/1m", "overrides": {"<a>": 9, "<a>": 8}}"#, "there is one already"),
            (r#"{"limits": "5/1m", "overrides": {"<a>": 0}}"#, "or block the key"),
            (r#"{"limits": "5/1m", "overrides": {"<a>": -1}}"#, "cannot be negative"),
            (r#"{"limits": "5/1m", "overrides": {"<a>": {}}}"#, "it changes nothing"),
            (r#"{"limits": "5/1m", "overrides": {"<a>": [5, 6]}}"#, "one limit, so write one `max`"),
            (r#"{"limits": "5/1m, 9/1h", "overrides": {"<a>": 9}}"#, "so write 2 values of `max`"),
            (r#"{"limits": "5/1m", "overrides": {"<a>": {"window": "1h"}}}"#, "unknown field `window`"),
            (r#"{"limits": "5/1m", "overrides": {"<a>": {"burst": 9}}}"#, "goes with token_bucket"),
            (r#"{"limits": "5/1m", "overrides": {"<a>": "9/1m"}}"#, "a number of calls, a list of them"),
            (r#"{"limits": "5/1m", "block": "1h..1m"}"#, "write `1m..1h`"),
        ] {
            let error = serde_json::from_str::<Policy>(json).unwrap_err().to_string();
            assert!(error.contains(expected), "{json}: {error}");
        }
    }
}

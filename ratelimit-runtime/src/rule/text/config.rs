//! Policies as configuration files write them: a string, a list of limits, or a table.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use smallvec::SmallVec;

use super::fault::ParseError;
use super::{block, limits_in};
use crate::rule::limit::Limit;
use crate::rule::policy::Policy;

/// A string as for [`FromStr`](std::str::FromStr), a list of limits, or a table of `limits`,
/// `algorithm`, `burst` and `block`.
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
            "limits such as \"5/1m, 50/1d\", a list of them, or a table of `limits`, `algorithm`, `burst`, `block`",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Policy, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Policy, A::Error> {
        let limits = LimitsVisitor.visit_seq(items)?.0;
        assembled(limits, None, None, None).map_err(de::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Policy, A::Error> {
        const FIELDS: &[&str] = &["limits", "algorithm", "burst", "block"];
        let (mut limits, mut algorithm, mut burst, mut block) = (None, None, None, None);
        while let Some(field) = fields.next_key::<String>()? {
            match field.as_str() {
                "limits" if limits.is_none() => limits = Some(fields.next_value::<Limits>()?.0),
                "algorithm" if algorithm.is_none() => algorithm = Some(fields.next_value::<String>()?),
                "burst" if burst.is_none() => burst = Some(fields.next_value::<u64>()?),
                "block" if block.is_none() => block = Some(fields.next_value::<String>()?),
                "limits" => return Err(de::Error::duplicate_field("limits")),
                "algorithm" => return Err(de::Error::duplicate_field("algorithm")),
                "burst" => return Err(de::Error::duplicate_field("burst")),
                "block" => return Err(de::Error::duplicate_field("block")),
                other => return Err(de::Error::unknown_field(other, FIELDS)),
            }
        }
        let limits = limits.ok_or_else(|| de::Error::missing_field("limits"))?;
        assembled(limits, algorithm.as_deref(), burst, block.as_deref()).map_err(de::Error::custom)
    }
}

/// The policy of these parts, where they go together.
fn assembled(
    limits: SmallVec<[Limit; 2]>,
    algorithm: Option<&str>,
    burst: Option<u64>,
    block: Option<&str>,
) -> Result<Policy, ParseError> {
    let algorithm = algorithm.map(str::parse).transpose()?;
    let lasts = block.map(|text| block::read(text).map_err(|fault| fault.drawn(text))).transpose()?;
    Policy::of(limits, algorithm.unwrap_or_default(), burst, lasts).map_err(ParseError::from)
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
    use crate::rule::Algorithm;

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
            (r#"{"limits": "5/1m", "block": "1h..1m"}"#, "write `1m..1h`"),
        ] {
            let error = serde_json::from_str::<Policy>(json).unwrap_err().to_string();
            assert!(error.contains(expected), "{json}: {error}");
        }
    }
}

//! [`InForce`]: the rules that the limiters of a service have written to its Redis.
//!
//! Any client that may write to that Redis may have written them: they are checked, and printed
//! escaped.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use ratelimit_runtime::store::{Feature, Request, Store as _, StoreError};
use ratelimit_runtime::{Algorithm, Limit, Policy, RateLimitError, RedisStore};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::printable::{cut, escaped};
use crate::rules::{answer, nearest, unescaped};

/// The latest version of a line that this program reads.
const LINE: u64 = 1;
/// A rule that no limiter has written for so many days is left out.
const MAX_DAYS: u64 = 35;
/// The most rules that are read.
const MAX_RULES: usize = 10_000;

/// The rules under a prefix.
pub(crate) struct InForce {
    pub(crate) rules: Vec<RuleInForce>,
    /// The lines that could not be read, each with the reason.
    pub(crate) skipped: Vec<String>,
    /// `true` if all lines were read.
    pub(crate) complete: bool,
}

/// A rule as a limiter applies it.
#[derive(Serialize)]
pub(crate) struct RuleInForce {
    #[serde(skip)]
    pub(crate) prefix: String,
    #[serde(skip)]
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) line: Line,
    /// The limits; `None` where only calls in flight are limited.
    #[serde(skip)]
    pub(crate) policy: Option<Policy>,
    /// The reason why a store without scripts cannot keep the rule, which one with scripts wrote.
    #[serde(skip)]
    unsupported: Option<String>,
}

/// The line of JSON of a rule, without fields that this program does not know.
#[derive(Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) limits: Vec<String>,
    pub(crate) algorithm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) concurrent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
    /// The template of the key; empty for a rule without a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(default)]
    pub(crate) kinds: Vec<String>,
    /// `hashed`, where Redis holds no key in clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefetch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<String>,
    pub(crate) version: String,
    day: u64,
}

/// The rules that limiters with this prefix have written, by name.
pub(crate) async fn read(
    store: &RedisStore,
    prefix: &str,
    timeout: Duration,
) -> Result<InForce, RateLimitError> {
    let colon = if prefix.is_empty() { "" } else { ":" };
    let beginning = format!("{prefix}{colon}");
    let lines = answer(timeout, async || store.rule_lines(&beginning).await).await?;
    let capabilities = store.capabilities();
    let has_permits = capabilities.supports_feature(Algorithm::default(), Feature::Concurrent);
    let mut found = InForce {
        rules: Vec::new(),
        skipped: Vec::new(),
        complete: lines.len() <= MAX_RULES,
    };
    if !found.complete {
        let under = format!("under the prefix \"{}\"", cut(prefix));
        let why = format!("{under} are more than {MAX_RULES} rules: the others are left out");
        found.skipped.push(why);
    }
    for (field, line) in lines.into_iter().take(MAX_RULES) {
        match RuleInForce::read(prefix, &field, &line) {
            Ok(rule) if rule.days() > MAX_DAYS => {}
            Ok(mut rule) => {
                let policy = rule.policy.as_ref();
                let unsupported = policy.and_then(|policy| {
                    let request = Request::new(b"", policy.algorithm(), policy.limits());
                    capabilities.supports(&request).err()
                });
                let no_permits = rule.line.concurrent.is_some() && !has_permits;
                let no_permits = no_permits.then(|| "the store keeps no permits".to_owned());
                rule.unsupported = unsupported.map(|why| why.to_string()).or(no_permits);
                found.rules.push(rule);
            }
            Err(why) => {
                let (name, why) = (cut(&String::from_utf8_lossy(&field)), escaped(&why));
                found
                    .skipped
                    .push(format!("the rule {name} is left out: {why}"));
            }
        }
    }
    found
        .rules
        .sort_by(|a, b| (&a.name, &a.line.policy).cmp(&(&b.name, &b.line.policy)));
    found.skipped.sort();
    Ok(found)
}

impl RuleInForce {
    fn read(prefix: &str, field: &[u8], line: &[u8]) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("its line is damaged ({why})");
        let field = std::str::from_utf8(field).map_err(|why| wrong(&why))?;
        // Behind the colon is the policy, which the line names too.
        let name = field.split(':').next().and_then(unescaped);
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| wrong(&"no name"))?;
        let line: Value = serde_json::from_slice(line).map_err(|why| wrong(&why))?;
        match line.get("line").and_then(Value::as_u64) {
            Some(1..=LINE) => {}
            Some(_) => {
                return Err(
                    "a later release wrote it: use the ratelimit-admin of that one".to_owned(),
                );
            }
            None => return Err(wrong(&"no version")),
        }
        let line = Line::deserialize(line).map_err(|why| wrong(&why))?;
        let policy = if line.limits.is_empty() && line.concurrent.is_some() {
            None
        } else {
            Some(policy_of(&line).map_err(|why| wrong(&why))?)
        };
        Ok(Self {
            prefix: prefix.to_owned(),
            name,
            line,
            policy,
            unsupported: None,
        })
    }

    /// The number of days since the line was written.
    pub(crate) fn days(&self) -> u64 {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        (since.as_secs() / 86_400).saturating_sub(self.line.day)
    }

    /// `true` if each call says the `max` of its first limit.
    pub(crate) fn is_max_per_call(&self) -> bool {
        self.line.max.is_some()
    }

    /// `true` if Redis holds no key of the rule in clear.
    pub(crate) fn is_hashed(&self) -> bool {
        self.line.keys.is_some()
    }

    /// `true` if it refuses no call.
    pub(crate) fn is_in_shadow(&self) -> bool {
        self.line.shadow.as_deref() == Some("on")
    }

    /// `Ok` if the store can keep the rule.
    pub(crate) fn supported(&self) -> Result<(), String> {
        self.unsupported.clone().map_or(Ok(()), Err)
    }

    /// The limits, or the reason why the rule's keys cannot be looked at.
    pub(crate) fn limits(&self) -> Result<&Policy, String> {
        self.supported()?;
        let policy = self
            .policy
            .as_ref()
            .ok_or("it limits only calls in flight: see `ratelimit-admin in-flight`")?;
        if self.is_max_per_call() && policy.algorithm().has_burst() {
            return Err("each call says its `max`, by which a bucket is read: say --limits".into());
        }
        Ok(policy)
    }
}

/// The limits of a line. Where each call says the first `max`, it is [`Limit::MAX_COUNT`].
fn policy_of(line: &Line) -> Result<Policy, String> {
    let mut limits = line.limits.clone();
    if let (Some(_), Some(first)) = (&line.max, limits.first_mut())
        && let Some((_, window)) = first.split_once('/')
    {
        *first = format!("{}/{window}", Limit::MAX_COUNT);
    }
    let mut table = Map::new();
    table.insert("limits".to_owned(), limits.into());
    table.insert("algorithm".to_owned(), line.algorithm.clone().into());
    if let (Some(burst), None) = (line.burst, &line.max) {
        table.insert("burst".to_owned(), burst.into());
    }
    serde_json::from_value(Value::Object(table)).map_err(|why| why.to_string())
}

impl InForce {
    /// No rules; `why` is reported as the reason.
    pub(crate) fn unread(prefix: &str, why: &StoreError) -> Self {
        let why = format!(
            "what limiters have written under the prefix \"{}\" is left out: {}",
            cut(prefix),
            escaped(&why.to_string())
        );
        Self {
            rules: Vec::new(),
            skipped: vec![why],
            complete: true,
        }
    }

    /// `true` if a rule is known under several policies, of which each call says one.
    pub(crate) fn has_policies(&self, name: &str) -> bool {
        self.rules.iter().filter(|rule| rule.name == name).count() > 1
    }

    /// Keeps the rule of this name, or the only rule whose name ends in it.
    pub(crate) fn keep_only(&mut self, name: &str) -> Result<(), String> {
        let unknown = || self.unknown(name, "`list RULE --limits …` lists the keys of another");
        let full = self.known_name(name)?.ok_or_else(unknown)?.to_owned();
        self.rules.retain(|rule| rule.name == full);
        Ok(())
    }

    /// The rule of this name, or the only rule whose name ends in it. `policy` is required if the
    /// name has several policies.
    pub(crate) fn rule(&self, name: &str, policy: Option<&str>) -> Result<&RuleInForce, String> {
        let full = self.full_name(name)?;
        let of_name = || self.rules.iter().filter(|rule| rule.name == full);
        let is_of_policy = |rule: &&RuleInForce| {
            policy.is_none_or(|name| rule.line.policy.as_deref() == Some(name))
        };
        match of_name().filter(is_of_policy).collect::<Vec<_>>()[..] {
            [only] => Ok(only),
            _ => Err(format!(
                "which limits has {}? Redis knows them under the policies {}: say one of them with \
                 --policy",
                escaped(full),
                listed(of_name().filter_map(|rule| rule.line.policy.as_deref()))
            )),
        }
    }

    fn full_name<'n>(&'n self, name: &'n str) -> Result<&'n str, String> {
        let say = "say --limits (and --algorithm, --zone) as the service does, or --policies FILE";
        let unknown = || self.unknown(name, say);
        self.known_name(name)?.ok_or_else(unknown)
    }

    fn names(&self) -> BTreeSet<&str> {
        self.rules.iter().map(|rule| rule.name.as_str()).collect()
    }

    /// The full name of a rule given by its name or the last part; `None` if no rule has it.
    pub(crate) fn known_name<'n>(&'n self, name: &'n str) -> Result<Option<&'n str>, String> {
        let all = self.names();
        if all.contains(name) {
            return Ok(Some(name));
        }
        let is_last_part = |all: &&str| all.rsplit('.').next() == Some(name);
        match all.iter().copied().filter(is_last_part).collect::<Vec<_>>()[..] {
            [only] => Ok(Some(only)),
            [] => Ok(None),
            [..] => Err(format!(
                "{} may be {}: say which",
                escaped(name),
                listed(all.into_iter().filter(is_last_part))
            )),
        }
    }

    /// The message where no limiter has written the rule, and what to do.
    fn unknown(&self, name: &str, instead: &str) -> String {
        let names = self.names();
        let all = names.len();
        let near = nearest(names, name);
        let more = match all - near.len() {
            0 => String::new(),
            more => format!(" and {more} more (see `ratelimit-admin rules`)"),
        };
        let near = if near.is_empty() {
            "no rule".to_owned()
        } else {
            listed(near.into_iter()) + &more
        };
        let skipped = self
            .skipped
            .iter()
            .fold(String::new(), |all, why| all + "; " + why);
        format!(
            "which limits has {}? Services have written {near} to Redis under this prefix: \
             {instead}{skipped}",
            escaped(name)
        )
    }
}

/// The names, escaped.
pub(crate) fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(escaped).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Display for RuleInForce {
    /// `5/1m, block 10m, key <email>, policy login; written today by 0.1.0`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Line {
            limits,
            burst,
            block,
            concurrent,
            key,
            policy,
            prefetch,
            shadow,
            version,
            ..
        } = &self.line;
        let mut parts = limits.clone();
        if let (true, Some(first)) = (self.is_max_per_call(), parts.first_mut()) {
            let window = first.split_once('/').map_or("", |(_, window)| window);
            *first = format!("(said by each call)/{window}");
        }
        parts.extend(burst.map(|burst| format!("burst {burst}")));
        parts.extend(block.as_ref().map(|block| format!("block {block}")));
        parts.extend(concurrent.map(|most| format!("at most {most} in flight")));
        parts.push(match key.as_deref() {
            None => "key not known".to_owned(),
            Some("") => "no key".to_owned(),
            Some(key) => format!("key {key}"),
        });
        parts.extend(self.is_hashed().then(|| "hashed".to_owned()));
        parts.extend(policy.as_ref().map(|policy| format!("policy {policy}")));
        parts.extend(prefetch.as_ref().map(|time| format!("prefetch {time}")));
        parts.extend(shadow.as_ref().map(|shadow| match shadow.as_str() {
            "call" => "in shadow mode if the call says so".to_owned(),
            _ => "in shadow mode".to_owned(),
        }));
        let when = match self.days() {
            0 => "today".to_owned(),
            1 => "yesterday".to_owned(),
            days => format!("{days} days ago"),
        };
        let text = format!("{}; written {when} by {version}", parts.join(", "));
        f.write_str(&escaped(&text))
    }
}

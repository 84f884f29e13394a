//! The rules that have keys on a Redis, read from the names of these keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use humantime::format_duration;
use jiff::tz::TimeZone;
use ratelimit_runtime::store::{Request, Store as _, StoreError, StoreErrorKind};
use ratelimit_runtime::{Algorithm, CalendarUnit, Limit, Policy, RateLimitError, RedisStore};

/// The most rules that are counted, because another program may write keys that look like those of
/// many more.
const MAX_RULES: usize = 10_000;

/// The pause before Redis is asked again that was not there.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The most prefixes whose rules are read.
const MAX_PREFIXES: usize = 100;

/// The most similar names that are printed for an unknown rule.
const MAX_NEAR: usize = 5;

/// The part that all keys of a rule have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleKeys {
    /// The prefix of the limiter.
    pub(crate) prefix: String,
    pub(crate) name: String,
    pub(crate) algorithm: &'static str,
    /// The windows of the limits, in order; empty for calls in flight.
    pub(crate) windows: Vec<Window>,
}

/// The window of a limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Window {
    Span(Duration),
    /// The zone as it is stored, which may be unknown on this machine.
    Calendar(CalendarUnit, String),
}

/// The number of keys of each rule, and whether these are all rules.
pub(crate) struct Rules {
    pub(crate) seen: BTreeMap<RuleKeys, u64>,
    /// The prefixes under which limiters have written their rules.
    pub(crate) prefixes: BTreeSet<String>,
    pub(crate) complete: bool,
}

/// Scans all keys of a Redis once for each algorithm whose keys have a form of their own; with a
/// prefix, only the keys that begin with it.
pub(crate) async fn list(
    store: &RedisStore,
    algorithms: &[Algorithm],
    prefix: Option<&str>,
    timeout: Duration,
) -> Result<Rules, RateLimitError> {
    let mut rules = Rules {
        seen: BTreeMap::new(),
        prefixes: prefix.map(str::to_owned).into_iter().collect(),
        complete: true,
    };
    let beginning = prefix
        .filter(|prefix| !prefix.is_empty())
        .map(|prefix| format!("{prefix}:"))
        .unwrap_or_default();
    for algorithm in algorithms {
        let mut add = |known: RuleKeys, _: &str| {
            // An empty prefix stands for limiters without a prefix.
            if prefix.is_none_or(|prefix| known.prefix == prefix) {
                rules.add(known);
            }
        };
        let written = for_each_key(store, &beginning, *algorithm, timeout, &mut add).await?;
        if prefix.is_none() {
            rules.prefixes.extend(written);
        }
    }
    Ok(rules)
}

/// The rendered keys of a rule of this name that have calls in flight, at most `max_keys`, and
/// whether these are all.
pub(crate) async fn in_flight(
    store: &RedisStore,
    (prefix, name): (&str, &str),
    max_keys: usize,
    timeout: Duration,
) -> Result<(BTreeSet<String>, bool), RateLimitError> {
    let beginning = if prefix.is_empty() {
        "rl1:cc:".to_owned()
    } else {
        format!("{prefix}:rl1:cc:")
    };
    let mut found = BTreeSet::new();
    let mut add = |known: RuleKeys, key: &str| {
        if known.prefix == prefix && known.name == name && found.len() <= max_keys {
            found.insert(key.to_owned());
        }
    };
    for_each_key(
        store,
        &beginning,
        Algorithm::SlidingWindow,
        timeout,
        &mut add,
    )
    .await?;
    let complete = found.len() <= max_keys;
    Ok((found.into_iter().take(max_keys).collect(), complete))
}

/// Calls the function with the rule and the rendered key of each key with this beginning; for some
/// keys perhaps more than once. The prefixes of the keys that hold rules, not more than
/// [`MAX_PREFIXES`].
async fn for_each_key(
    store: &RedisStore,
    beginning: &str,
    algorithm: Algorithm,
    timeout: Duration,
    work: &mut impl FnMut(RuleKeys, &str),
) -> Result<BTreeSet<String>, RateLimitError> {
    let mut prefixes = BTreeSet::new();
    let (limits, mut from) = ([Limit::per_second(1)], None);
    loop {
        let request = Request::new(beginning.as_bytes(), algorithm, &limits);
        let page = answer(timeout, async || store.keys(request, from.clone()).await).await?;
        for key in page.keys {
            let Ok(key) = std::str::from_utf8(&key) else {
                continue;
            };
            if let Some((known, rendered)) = read(key) {
                work(known, rendered);
            } else if prefixes.len() < MAX_PREFIXES
                && let Some(prefix) = key.strip_suffix("rl1:rules")
                && (prefix.is_empty() || prefix.ends_with(':'))
            {
                prefixes.insert(prefix.trim_end_matches(':').to_owned());
            }
        }
        from = page.next;
        if from.is_none() {
            return Ok(prefixes);
        }
    }
}

/// Asks Redis for so long: a connection may not be made yet.
pub(crate) async fn answer<T>(
    timeout: Duration,
    ask: impl AsyncFn() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let late = || StoreError::unavailable("no answer in time");
    let (start, mut why) = (Instant::now(), None);
    while let Some(left) = timeout.checked_sub(start.elapsed()) {
        match tokio::time::timeout(left, ask()).await {
            Ok(Err(error)) if error.kind() == StoreErrorKind::Unavailable => why = Some(error),
            Ok(answer) => return answer,
            Err(_) => break,
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
    Err(why.unwrap_or_else(late))
}

/// The rules that a name may refer to.
pub(crate) enum Named {
    /// A rule of this name.
    Stored,
    /// The only rule whose derived name ends in this name.
    LastPartOf(String),
    /// Several rules whose derived names end in this name.
    LastPartOfSeveral(Vec<String>),
    /// No rule; the most similar names.
    Unknown(Vec<String>),
}

impl Rules {
    pub(crate) fn named(&self, name: &str) -> Named {
        let names: BTreeSet<&str> = self.seen.keys().map(|rule| rule.name.as_str()).collect();
        if names.contains(name) {
            return Named::Stored;
        }
        let ends: Vec<&str> = names
            .iter()
            .copied()
            .filter(|known| last_part(known) == name)
            .collect();
        match ends[..] {
            [] => {}
            [only] => return Named::LastPartOf(only.to_owned()),
            [..] => return Named::LastPartOfSeveral(ends.into_iter().map(str::to_owned).collect()),
        }
        let near = nearest(names, name).into_iter();
        Named::Unknown(near.map(str::to_owned).collect())
    }

    /// The algorithms and windows under which keys of a rule are stored.
    pub(crate) fn ways_of(&self, name: &str) -> BTreeSet<String> {
        let limited = self
            .seen
            .keys()
            .filter(|rule| rule.name == name && !rule.windows.is_empty());
        limited
            .map(|rule| kept_as(rule.algorithm, &rule.windows))
            .collect()
    }

    fn add(&mut self, rule: RuleKeys) {
        if let Some(keys) = self.seen.get_mut(&rule) {
            *keys += 1;
        } else if self.seen.len() < MAX_RULES {
            self.seen.insert(rule, 1);
        } else {
            self.complete = false;
        }
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The names that are most like this one.
pub(crate) fn nearest<'n>(names: BTreeSet<&'n str>, name: &str) -> Vec<&'n str> {
    let alike = |known: &str| {
        let last = strsim::jaro_winkler(last_part(known), last_part(name));
        strsim::jaro_winkler(known, name).max(last)
    };
    let mut near: Vec<&str> = names.into_iter().collect();
    near.sort_by(|a, b| alike(b).total_cmp(&alike(a)));
    near.truncate(MAX_NEAR);
    near
}

/// The rule and the rendered key of a key: `shop:prod:rl1:sw-60s+86400s:log_in:<alice>` is `log_in`
/// and `<alice>`. `None` for keys of another form.
fn read(key: &str) -> Option<(RuleKeys, &str)> {
    let (prefix, rest) = match key.strip_prefix("rl1:") {
        Some(rest) => ("", rest),
        None => key.split_once(":rl1:")?,
    };
    let mut segments = rest.splitn(3, ':');
    let (kept, name, rendered) = (segments.next()?, segments.next()?, segments.next()?);
    let (tag, windows) = kept
        .split_once('-')
        .map_or((kept, None), |(tag, windows)| (tag, Some(windows)));
    let algorithm = match tag {
        "sw" => "sliding_window",
        "sc" => "sliding_counter",
        "fw" => "fixed_window",
        "tb" => "token_bucket",
        "lb" => "leaky_bucket",
        "cc" => "concurrent",
        _ => return None,
    };
    let windows = windows.map_or_else(
        || Some(Vec::new()),
        |windows| windows.split('+').map(Window::read).collect(),
    )?;
    if windows.is_empty() != (tag == "cc") {
        return None;
    }
    Some((
        RuleKeys {
            prefix: prefix.to_owned(),
            name: unescaped(name)?,
            algorithm,
            windows,
        },
        rendered,
    ))
}

/// The name of an algorithm.
pub(crate) fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingCounter => "sliding_counter",
        Algorithm::FixedWindow => "fixed_window",
        Algorithm::TokenBucket => "token_bucket",
        Algorithm::LeakyBucket => "leaky_bucket",
        _ => "sliding_window",
    }
}

/// The algorithm and the windows of a policy: `sliding_window 1m + 1day`.
pub(crate) fn kept(policy: &Policy) -> String {
    kept_as(&policy.algorithm().to_string(), &windows(policy))
}

/// The windows of a policy.
pub(crate) fn windows(policy: &Policy) -> Vec<Window> {
    let named = |zone: Option<&str>| {
        let zone = zone.and_then(|zone| TimeZone::get(zone).ok());
        let name = zone.as_ref().and_then(TimeZone::iana_name);
        name.unwrap_or("UTC").to_owned()
    };
    let each = policy.limits().iter();
    let each = each.map(|limit| match limit.calendar_unit() {
        Some(unit) => Window::Calendar(unit, named(limit.zone().or(policy.zone()))),
        None => Window::Span(limit.window()),
    });
    each.collect()
}

pub(crate) fn kept_as(algorithm: &str, windows: &[Window]) -> String {
    let windows: Vec<_> = windows.iter().map(Window::to_string).collect();
    format!("{algorithm} {}", windows.join(" + "))
        .trim_end()
        .to_owned()
}

impl Window {
    /// `60s`, `day@Europe/Berlin`.
    fn read(text: &str) -> Option<Self> {
        if let Some((name, zone)) = text.split_once('@') {
            let unit = CalendarUnit::ALL
                .iter()
                .find(|unit| unit.to_string() == name)?;
            return Some(Self::Calendar(*unit, unescaped(zone)?));
        }
        Some(Self::Span(
            format!("1/{text}").parse::<Limit>().ok()?.window(),
        ))
    }

    pub(crate) fn is_calendar(&self) -> bool {
        matches!(self, Self::Calendar(..))
    }

    /// The length; for a calendar window, the usual or the longest one.
    pub(crate) fn lasts(&self) -> Duration {
        match self {
            Self::Span(span) => *span,
            Self::Calendar(unit, _) => Limit::calendar(1, *unit).window(),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => format_duration(*span).fmt(f),
            Self::Calendar(unit, zone) => write!(f, "{unit}@{zone}"),
        }
    }
}

/// The name with `%` and two digits decoded to a byte.
pub(crate) fn unescaped(name: &str) -> Option<String> {
    let mut parts = name.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

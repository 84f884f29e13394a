//! The rules that have keys on a Redis, read from the names of these keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use humantime::format_duration;
use jiff::tz::TimeZone;
use ratelimit_runtime::store::{Request, Store as _, StoreError, StoreErrorKind};
use ratelimit_runtime::{Algorithm, CalendarUnit, Key, Limit, Policy, RateLimitError, RedisStore};
use serde::Serialize;

use crate::printable::cut;

/// The most rules that are counted: keys of another program may look like the keys of many more.
const MAX_RULES: usize = 10_000;

/// The pause before a Redis that could not be reached is asked again.
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

impl RuleKeys {
    /// The common part of the keys of a rule with these limits.
    pub(crate) fn of(prefix: Option<&str>, name: &str, policy: &Policy) -> Self {
        Self {
            prefix: prefix.unwrap_or_default().to_owned(),
            name: name.to_owned(),
            algorithm: algorithm_name(policy.algorithm()),
            windows: windows(policy),
        }
    }
}

/// The window of a limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Window {
    Span(Duration),
    /// The zone as it is stored, which may be unknown on this machine.
    Calendar(CalendarUnit, String),
}

/// Keys that a command goes on without: no limiter of this release has written them, or their
/// master is away.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Unread {
    keys: BTreeSet<UnreadKey>,
    /// The number of further keys.
    #[serde(skip)]
    more: usize,
    /// The masters of a cluster that did not answer, each with the reason.
    #[serde(skip)]
    missing: BTreeMap<String, StoreError>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct UnreadKey {
    key: String,
    why: String,
}

/// The most unread keys that are named.
const MAX_UNREAD: usize = 100;

/// The reason why the name of a key cannot be read.
const OTHER_NAME: &str = "its name is none of this release: another program or release wrote it";

impl Unread {
    pub(crate) fn add(&mut self, key: &str, why: impl fmt::Display) {
        if self.keys.len() < MAX_UNREAD {
            let (key, why) = (key.to_owned(), why.to_string());
            self.keys.insert(UnreadKey { key, why });
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.keys.is_empty() && self.missing.is_empty()
    }

    /// The keys of a master are left out.
    pub(crate) fn miss(&mut self, master: String, why: StoreError) {
        self.missing.entry(master).or_insert(why);
    }

    /// A line for each master that is away.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        self.missing
            .iter()
            .map(|(master, why)| format!("{master} does not answer, its keys are left out: {why}"))
    }

    /// An error if a master is away.
    pub(crate) fn none_missing(&self) -> Result<(), RateLimitError> {
        match self.missing.values().next() {
            Some(why) => Err(why.clone().into()),
            None => Ok(()),
        }
    }

    /// The result of a look at a key; `None` if another program has written the key.
    pub(crate) fn unless_foreign<T>(
        &mut self,
        key: &str,
        found: Result<T, RateLimitError>,
    ) -> Result<Option<T>, RateLimitError> {
        match found {
            Err(RateLimitError::Misconfigured(why)) => {
                self.add(key, why);
                Ok(None)
            }
            found => found.map(Some),
        }
    }
}

impl fmt::Display for Unread {
    /// A line for each, without a line break at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for UnreadKey { key, why } in &self.keys {
            write!(f, "\nthe key {} is left out: {}", cut(key), cut(why))?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n{more} more keys are left out"),
        }
    }
}

/// The number of keys of each rule, and whether these are all rules.
pub(crate) struct Rules {
    pub(crate) seen: BTreeMap<RuleKeys, u64>,
    /// The prefixes under which limiters have written their rules.
    pub(crate) prefixes: BTreeSet<String>,
    pub(crate) complete: bool,
    pub(crate) unread: Unread,
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
        unread: Unread::default(),
    };
    let beginning = prefix
        .filter(|prefix| !prefix.is_empty())
        .map(|prefix| format!("{prefix}:"))
        .unwrap_or_default();
    for algorithm in algorithms {
        let mut pages = Pages::new(store, &beginning, *algorithm, timeout);
        while let Some(page) = pages.next_page(&mut rules.unread).await? {
            for key in page {
                // An empty prefix stands for limiters without a prefix.
                let is_asked = |of: &str| prefix.is_none_or(|prefix| of == prefix);
                match read(&key) {
                    Name::Key(known, _) if is_asked(&known.prefix) => rules.add(known),
                    Name::Rules(of) if prefix.is_none() => {
                        rules.prefixes.insert(of);
                        if rules.prefixes.len() > MAX_PREFIXES {
                            rules.prefixes.pop_last();
                            rules.complete = false;
                        }
                    }
                    Name::Unread(of) if is_asked(&of) => rules.unread.add(&key.text, OTHER_NAME),
                    _ => {}
                }
            }
        }
    }
    Ok(rules)
}

/// The keys of a rule, each with its name on Redis.
pub(crate) type KeysOfRule = BTreeMap<Key, String>;

/// The keys of a rule that Redis holds, at most `max_keys`, and whether these are all.
pub(crate) async fn keys_of(
    store: &RedisStore,
    rule: RuleKeys,
    max_keys: usize,
    timeout: Duration,
    unread: &mut Unread,
) -> Result<(KeysOfRule, bool), RateLimitError> {
    let algorithm = [rule.algorithm.parse().unwrap_or_default()];
    let rules = BTreeMap::from([(rule, 0)]);
    let found = keys_of_all(store, &rules, &algorithm, max_keys, timeout, unread);
    let (mut found, complete) = found.await?;
    Ok((found.remove(&0).unwrap_or_default(), complete))
}

/// The keys of these rules under one prefix, each with a number, by which they are found: at most
/// `max_keys` in all, and whether these are all. Scans all keys once for each of the algorithms.
pub(crate) async fn keys_of_all(
    store: &RedisStore,
    rules: &BTreeMap<RuleKeys, usize>,
    algorithms: &[Algorithm],
    max_keys: usize,
    timeout: Duration,
    unread: &mut Unread,
) -> Result<(BTreeMap<usize, KeysOfRule>, bool), RateLimitError> {
    let mut found = BTreeMap::<usize, KeysOfRule>::new();
    let mut tags: BTreeSet<_> = rules.keys().map(|rule| tag_of(rule.algorithm)).collect();
    let (Some(tag), Some((first, _))) = (tags.pop_first(), rules.first_key_value()) else {
        return Ok((found, true));
    };
    let tag = if tags.is_empty() { tag } else { "" };
    let colon = if first.prefix.is_empty() { "" } else { ":" };
    let beginning = format!("{}{colon}rl1:{tag}", first.prefix);
    let mut left = max_keys;
    for algorithm in algorithms {
        let mut pages = Pages::new(store, &beginning, *algorithm, timeout);
        while let Some(page) = pages.next_page(unread).await? {
            for key in page {
                let Name::Key(known, rendered) = read(&key) else {
                    continue;
                };
                let Some(number) = rules.get(&known) else {
                    continue;
                };
                match Key::from_rendered(rendered) {
                    Ok(rendered) if key.is_text => {
                        let keys = found.entry(*number).or_default();
                        if keys.contains_key(&rendered) {
                            continue;
                        }
                        if left == 0 {
                            return Ok((found, false));
                        }
                        left -= 1;
                        keys.insert(rendered, key.text);
                    }
                    _ => unread.add(&key.text, "no key is rendered so: another program wrote it"),
                }
            }
        }
    }
    Ok((found, true))
}

/// Pages of the keys of a Redis that begin with `beginning`. A key may appear more than once.
struct Pages<'a> {
    store: &'a RedisStore,
    beginning: &'a str,
    algorithm: Algorithm,
    timeout: Duration,
    /// The cursor of the next page.
    from: Option<Vec<u8>>,
    is_at_end: bool,
}

/// The name of a key on Redis.
struct StoredKey {
    text: String,
    /// `true` if the whole key is UTF-8.
    is_text: bool,
}

impl<'a> Pages<'a> {
    fn new(
        store: &'a RedisStore,
        beginning: &'a str,
        algorithm: Algorithm,
        timeout: Duration,
    ) -> Self {
        Self {
            store,
            beginning,
            algorithm,
            timeout,
            from: None,
            is_at_end: false,
        }
    }

    /// The next page; an empty one where it is on a master that is away.
    async fn next_page(
        &mut self,
        unread: &mut Unread,
    ) -> Result<Option<Vec<StoredKey>>, RateLimitError> {
        if self.is_at_end {
            return Ok(None);
        }
        // A master that was away is not waited for again.
        if !unread.missing.is_empty()
            && let Some((master, behind)) = self.store.behind_master(self.from.as_deref()).await?
            && unread.missing.contains_key(&format!("the master {master}"))
        {
            self.from = Some(behind);
            return Ok(Some(Vec::new()));
        }
        let limits = [Limit::per_second(1)];
        let request = Request::new(self.beginning.as_bytes(), self.algorithm, &limits);
        let ask = async || self.store.keys(request, self.from.clone()).await;
        let page = match answer(self.timeout, ask).await {
            Err(why) if why.kind() == StoreErrorKind::Unavailable => {
                let behind = self.store.behind_master(self.from.as_deref()).await;
                let Ok(Some((master, behind))) = behind else {
                    return Err(why.into());
                };
                unread.miss(format!("the master {master}"), why);
                self.from = Some(behind);
                return Ok(Some(Vec::new()));
            }
            page => page?,
        };
        self.from = page.next;
        self.is_at_end = self.from.is_none();
        let stored = |key: Vec<u8>| match String::from_utf8(key) {
            Ok(text) => StoredKey {
                text,
                is_text: true,
            },
            Err(other) => StoredKey {
                text: String::from_utf8_lossy(other.as_bytes()).into_owned(),
                is_text: false,
            },
        };
        Ok(Some(page.keys.into_iter().map(stored).collect()))
    }
}

/// Asks Redis again until `timeout`: a connection may not be made yet.
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

/// The meaning of a key's name.
enum Name<'k> {
    /// The rule, and the rendered key.
    Key(RuleKeys, &'k str),
    /// The rules under this prefix.
    Rules(String),
    /// An unreadable key in the form that a limiter with this prefix writes.
    Unread(String),
    /// A key of another program.
    Other,
}

/// The rule and the rendered key of a key: `shop:prod:rl1:sw-60s+86400s:log_in:<alice>` is `log_in`
/// and `<alice>`.
fn read(key: &StoredKey) -> Name<'_> {
    let (prefix, rest) = match key.text.strip_prefix("rl1:") {
        Some(rest) => ("", rest),
        None => match key.text.split_once(":rl1:") {
            Some(split) => split,
            None => return Name::Other,
        },
    };
    if rest == "rules" {
        return Name::Rules(prefix.to_owned());
    }
    match rule_of(prefix, rest) {
        Some((rule, rendered)) => Name::Key(rule, rendered),
        None => Name::Unread(prefix.to_owned()),
    }
}

/// The rule of a key behind its prefix and `rl1:`, and the rendered key.
fn rule_of<'k>(prefix: &str, rest: &'k str) -> Option<(RuleKeys, &'k str)> {
    let mut segments = rest.splitn(3, ':');
    let (kept, name, rendered) = (segments.next()?, segments.next()?, segments.next()?);
    let (tag, windows) = kept
        .split_once('-')
        .map_or((kept, None), |(tag, windows)| (tag, Some(windows)));
    let (_, algorithm) = TAGS.iter().find(|(known, _)| *known == tag)?;
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

/// The algorithms, as keys have them.
const TAGS: [(&str, &str); 6] = [
    ("sw", "sliding_window"),
    ("sc", "sliding_counter"),
    ("fw", "fixed_window"),
    ("tb", "token_bucket"),
    ("lb", "leaky_bucket"),
    ("cc", "concurrent"),
];

fn tag_of(algorithm: &str) -> &'static str {
    let tag = TAGS.iter().find(|(_, known)| *known == algorithm);
    tag.map_or("", |(tag, _)| tag)
}

/// The name of an algorithm.
fn algorithm_name(algorithm: Algorithm) -> &'static str {
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
fn windows(policy: &Policy) -> Vec<Window> {
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

//! The output of the program, as text or JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use humantime::format_duration;
use ratelimit_runtime::{Decision, Key, Limit, Policy};
use serde::{Serialize, Serializer};

use crate::calendar::Period;
use crate::escapes::in_json;
use crate::in_force::{InForce, RuleInForce};
use crate::lookup::{Found, OVERRIDES, Top};
use crate::printable::{cut, escaped, of_error};
use crate::rules::{RuleKeys, Rules, Unread, Window, kept_as};

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Report {
    Standing(Standing),
    Rules(RuleList),
    Listing(Listing),
    InFlight(InFlightList),
    Found(Found),
    Top(Top),
    Outcome(Box<Outcome>),
    /// A report whose limits are a policy's, without the overrides.
    WithoutOverrides(Box<Self>),
}

/// The state of a key.
#[derive(Serialize)]
pub(crate) struct Standing {
    rule: &'static str,
    key: String,
    state: State,
    limit: u64,
    #[serde(rename = "window_seconds", serialize_with = "seconds")]
    window: Duration,
    /// The end of the window of a calendar quota.
    #[serde(rename = "window_ends", skip_serializing_if = "Option::is_none")]
    period: Option<Period>,
    remaining: u64,
    #[serde(rename = "retry_after_seconds", serialize_with = "optional_seconds")]
    pub(crate) retry_after: Option<Duration>,
    #[serde(rename = "reset_after_seconds", serialize_with = "seconds")]
    reset_after: Duration,
    /// `true` if refused calls run.
    #[serde(rename = "shadow", skip_serializing_if = "std::ops::Not::not")]
    is_in_shadow: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Allowed,
    Refused,
    Blocked,
}

#[derive(Serialize)]
pub(crate) struct Listing {
    pub(crate) rule: &'static str,
    pub(crate) keys: Vec<Standing>,
    /// `true` if the list is complete.
    pub(crate) complete: bool,
    /// The time zone of calendar quotas.
    #[serde(skip)]
    pub(crate) zone: Option<String>,
    /// Keys that could not be read.
    #[serde(skip_serializing_if = "Unread::is_empty")]
    pub(crate) unread: Unread,
}

#[derive(Serialize)]
pub(crate) struct InFlightList {
    pub(crate) rule: String,
    pub(crate) keys: Vec<CallsInFlight>,
    /// `true` if the list is complete.
    pub(crate) complete: bool,
    /// `true` if a limiter has written that the rule limits calls in flight.
    #[serde(skip)]
    pub(crate) is_known: bool,
    /// Keys that could not be read.
    #[serde(skip_serializing_if = "Unread::is_empty")]
    pub(crate) unread: Unread,
}

/// The number of calls in flight of a key. Permits of processes that died count until their leases
/// end.
#[derive(Serialize)]
pub(crate) struct CallsInFlight {
    pub(crate) key: String,
    pub(crate) in_flight: u64,
}

#[derive(Serialize)]
pub(crate) struct RuleList {
    rules: Vec<RuleRow>,
    /// `true` if the list is complete.
    complete: bool,
    /// Lines of Redis that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
    /// Keys that could not be read.
    #[serde(skip_serializing_if = "Unread::is_empty")]
    unread: Unread,
}

#[derive(Serialize)]
struct RuleRow {
    prefix: String,
    rule: String,
    algorithm: &'static str,
    /// `day@Europe/Berlin` for each calendar quota, and `null` for other limits.
    calendar: Vec<Option<String>>,
    /// A calendar day counts as 24 hours, a month as 31 days.
    #[serde(rename = "windows_seconds", serialize_with = "all_seconds")]
    windows: Vec<Window>,
    keys: u64,
    /// The rule as limiters apply it; once for each policy if calls choose theirs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    in_force: Vec<RuleInForce>,
}

impl RuleList {
    /// The rules that have keys, and those that limiters have written.
    pub(crate) fn new(mut rules: Rules, in_force: Vec<InForce>) -> Self {
        let (mut written, mut skipped) =
            (BTreeMap::<RuleKeys, Vec<RuleInForce>>::new(), Vec::new());
        for InForce {
            rules: of_prefix,
            skipped: lines,
            complete,
        } in in_force
        {
            rules.complete &= complete;
            skipped.extend(lines);
            for rule in of_prefix {
                let keys = keys_of(&rule);
                rules.seen.entry(keys.clone()).or_default();
                written.entry(keys).or_default().push(rule);
            }
        }
        let row = |(rule, keys)| {
            let in_force = written.remove(&rule).unwrap_or_default();
            let RuleKeys {
                prefix,
                name,
                algorithm,
                windows,
            } = rule;
            let calendar = windows
                .iter()
                .map(|window| window.is_calendar().then(|| window.to_string()))
                .collect();
            RuleRow {
                prefix,
                rule: name,
                algorithm,
                calendar,
                windows,
                keys,
                in_force,
            }
        };
        Self {
            rules: rules.seen.into_iter().map(row).collect(),
            complete: rules.complete,
            skipped,
            unread: rules.unread,
        }
    }
}

impl fmt::Display for RuleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, kept) = (
            width(self.rules.iter().map(RuleRow::name)),
            width(self.rules.iter().map(RuleRow::kept)),
        );
        for row in &self.rules {
            let keys = if row.keys == 1 { "key" } else { "keys" };
            write!(
                f,
                "{:names$}  {:kept$}  {} {keys}",
                row.name(),
                row.kept(),
                row.keys
            )?;
            if row.prefix.is_empty() {
                writeln!(f)?;
            } else {
                writeln!(f, ", --prefix {}", cut(&row.prefix))?;
            }
            for rule in &row.in_force {
                writeln!(f, "    {rule}")?;
            }
        }
        for line in &self.skipped {
            writeln!(f, "{line}")?;
        }
        match (self.rules.len(), self.complete) {
            (0, _) if self.unread.is_whole() => f.write_str(
                "no keys of any rule are stored; is this the Redis of the service, and its \
                 --prefix?",
            ),
            (1, true) => f.write_str("1 rule"),
            (rules, true) => write!(f, "{rules} rules"),
            (rules, false) => write!(f, "{rules} rules, and there are more: say --prefix"),
        }?;
        self.unread.fmt(f)
    }
}

impl RuleRow {
    /// The name, escaped and cut: any program may have written it.
    fn name(&self) -> String {
        cut(&self.rule)
    }

    fn kept(&self) -> String {
        cut(&kept_as(self.algorithm, &self.windows))
    }
}

/// The part that all keys of a rule have in common.
pub(crate) fn keys_of(rule: &RuleInForce) -> RuleKeys {
    match &rule.policy {
        Some(policy) => RuleKeys::of(Some(&rule.prefix), &rule.name, policy),
        None => RuleKeys {
            prefix: rule.prefix.clone(),
            name: rule.name.clone(),
            algorithm: "concurrent",
            windows: Vec::new(),
        },
    }
}

#[derive(Serialize)]
pub(crate) struct Outcome {
    pub(crate) command: &'static str,
    /// The length of a new block, which may end before the key is admitted.
    #[serde(
        rename = "blocked_for_seconds",
        serialize_with = "optional_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) blocked_for: Option<Duration>,
    /// `true` if there was anything to change.
    pub(crate) changed: bool,
    /// `true` if anything was counted or blocked for the key before.
    pub(crate) existed: bool,
    pub(crate) before: Standing,
    pub(crate) after: Standing,
}

impl Standing {
    /// The state that a decision on the limits of a policy shows.
    pub(crate) fn new(key: &Key, decision: &Decision, policy: &Policy) -> Self {
        let state = match decision {
            decision if decision.is_blocked() => State::Blocked,
            decision if decision.is_allowed() => State::Allowed,
            _ => State::Refused,
        };
        Self {
            rule: decision.rule(),
            key: String::from_utf8_lossy(key.as_bytes()).into_owned(),
            state,
            limit: decision.limit(),
            window: decision.window(),
            period: policy
                .limits()
                .get(decision.limit_index())
                .and_then(|limit| Period::of(limit, limit.zone().or(policy.zone()))),
            remaining: decision.remaining(),
            retry_after: decision.retry_after(),
            reset_after: decision.reset_after(),
            is_in_shadow: false,
        }
    }

    /// The state under a rule that refuses no call, if `is_so`.
    pub(crate) fn in_shadow(mut self, is_so: bool) -> Self {
        self.is_in_shadow = is_so;
        self
    }
}

impl Standing {
    pub(crate) fn is_allowed(&self) -> bool {
        matches!(self.state, State::Allowed)
    }

    fn used(&self) -> u64 {
        self.limit.saturating_sub(self.remaining)
    }

    /// `1 used, 4 of 5 left in 1m`. A block leaves nothing, whatever was used.
    pub(crate) fn with_used(&self) -> String {
        if self.limit == Limit::MAX_COUNT || matches!(self.state, State::Blocked) {
            self.to_string()
        } else {
            format!("{} used, {self}", self.used())
        }
    }

    pub(crate) fn rule_and_key(&self) -> (&str, &str) {
        (self.rule, &self.key)
    }

    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self.state, State::Allowed) && self.reset_after.is_zero()
    }
}

impl Report {
    /// Marks limits that are a policy's, without its overrides, if `is_so`.
    pub(crate) fn without_overrides(self, is_so: bool) -> Self {
        if is_so {
            Self::WithoutOverrides(Box::new(self))
        } else {
            self
        }
    }

    /// Exit code 2 where something could not be read, and is left out.
    pub(crate) fn print(&self, json: bool) -> ExitCode {
        let text = if json {
            let Ok(json) = self.json() else {
                return ExitCode::from(2);
            };
            in_json(&json)
        } else {
            self.to_string()
        };
        for master in self.missing() {
            failed(&master);
        }
        match written(&text) {
            ExitCode::SUCCESS if !self.is_whole() => ExitCode::from(2),
            code => code,
        }
    }

    fn json(&self) -> serde_json::Result<String> {
        let missing = self.missing();
        if missing.is_empty() {
            return serde_json::to_string(self);
        }
        let mut json = serde_json::to_value(self)?;
        if let Some(fields) = json.as_object_mut() {
            fields.insert("missing".to_owned(), missing.into());
            if let Some(complete) = fields.get_mut("complete") {
                *complete = false.into();
            }
        }
        Ok(json.to_string())
    }

    /// The masters of a cluster whose keys are left out.
    fn missing(&self) -> Vec<String> {
        let unread = match self {
            Self::Rules(rules) => &rules.unread,
            Self::Listing(listing) => &listing.unread,
            Self::InFlight(listing) => &listing.unread,
            Self::Found(found) => &found.unread,
            Self::Top(top) => &top.unread,
            Self::Standing(_) | Self::Outcome(_) => return Vec::new(),
            Self::WithoutOverrides(report) => return report.missing(),
        };
        unread.missing().collect()
    }

    fn is_whole(&self) -> bool {
        match self {
            Self::Rules(rules) => rules.skipped.is_empty() && rules.unread.is_whole(),
            Self::Listing(listing) => listing.unread.is_whole(),
            Self::InFlight(listing) => listing.unread.is_whole(),
            Self::Found(found) => found.is_whole(),
            Self::Top(top) => top.is_whole(),
            Self::Standing(_) | Self::Outcome(_) => true,
            Self::WithoutOverrides(report) => report.is_whole(),
        }
    }
}

/// Writes a text to standard output. A reader that wants no more of it, as `head`, is no failure.
pub(crate) fn written(text: &str) -> ExitCode {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            failed(&format!("standard output: {error}"));
            ExitCode::from(2)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Writes an error to standard error, whose reader may be gone.
pub(crate) fn failed(error: &str) {
    let _ = writeln!(io::stderr(), "error: {}", of_error(error));
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standing(standing) => {
                write!(
                    f,
                    "{} {}: {standing}",
                    escaped(standing.rule),
                    name(&standing.key)
                )?;
                if standing.is_untouched() {
                    write!(f, "; nothing is counted, {}", standing.hint())
                } else {
                    Ok(())
                }
            }
            Self::WithoutOverrides(report) => write!(f, "{report}{OVERRIDES}"),
            Self::Rules(rules) => rules.fmt(f),
            Self::Found(found) => found.fmt(f),
            Self::Top(top) => top.fmt(f),
            Self::Listing(Listing {
                rule,
                keys,
                complete,
                zone,
                unread,
            }) => {
                let rule = &escaped(rule);
                let width = width(keys.iter().map(|standing| name(&standing.key)));
                for standing in keys {
                    writeln!(f, "{:width$}  {standing}", name(&standing.key))?;
                }
                match (keys.len(), complete) {
                    (0, true) if unread.is_whole() => write!(
                        f,
                        "no keys of {rule} are stored; {}",
                        hint(rule, zone.as_deref())
                    ),
                    (keys, complete) => f.write_str(&keys_of_a_rule(keys, rule, *complete)),
                }?;
                unread.fmt(f)
            }
            Self::InFlight(InFlightList {
                rule,
                keys,
                complete,
                is_known,
                unread,
            }) => {
                let rule = &escaped(rule);
                let width = width(keys.iter().map(|calls| name(&calls.key)));
                for CallsInFlight { key, in_flight } in keys {
                    writeln!(f, "{:width$}  {in_flight} in flight", name(key))?;
                }
                match (keys.len(), complete) {
                    (0, true) if unread.is_whole() => {
                        write!(f, "no calls of {rule} are in flight")?;
                        if *is_known {
                            Ok(())
                        } else {
                            write!(f, "; {}", hint(rule, None))
                        }
                    }
                    (keys, complete) => f.write_str(&keys_of_a_rule(keys, rule, *complete)),
                }?;
                unread.fmt(f)
            }
            Self::Outcome(outcome) => {
                let Outcome {
                    command,
                    blocked_for,
                    changed,
                    existed,
                    before,
                    after,
                } = &**outcome;
                let (rule, key) = (escaped(before.rule), name(&before.key));
                if !*changed {
                    let hint = before.hint();
                    return write!(
                        f,
                        "{rule} {key}: there was nothing to {command}; {hint}\n  now:    {after}"
                    );
                }
                write!(f, "{command} {rule} {key}")?;
                if let Some(block) = blocked_for {
                    write!(f, " for {}", rounded(*block))?;
                }
                write!(f, "\n  before: {before}\n  now:    {after}")?;
                if *existed {
                    Ok(())
                } else {
                    write!(
                        f,
                        "\n  nothing was counted for it before; {}",
                        before.hint()
                    )
                }
            }
        }
    }
}

/// The number of keys of a rule, and whether there are more.
fn keys_of_a_rule(keys: usize, rule: &str, complete: bool) -> String {
    let of = if keys == 1 { "key" } else { "keys" };
    let more = if complete {
        ""
    } else {
        ", and there are more: see --max-keys"
    };
    format!("{keys} {of} of {rule}{more}")
}

impl Standing {
    fn hint(&self) -> String {
        hint(self.rule, self.period.as_ref().map(Period::zone))
    }
}

/// Possible reasons why nothing is stored.
fn hint(rule: &str, zone: Option<&str>) -> String {
    match zone {
        _ if rule.contains("::") => {
            "if the rule has no `name` of its own, its name is the path with dots: shop.Mailer.send"
                .to_owned()
        }
        Some(zone) => {
            format!("are name, windows, algorithm, zone ({zone}) and prefix those of the service?")
        }
        None => "are name, windows, algorithm, prefix, secret and --no-scripts those of the \
                 service?"
            .to_owned(),
    }
}

/// The width of a column, at most 100: longer texts push the next columns aside.
fn width(texts: impl Iterator<Item = String>) -> usize {
    let widths = texts.map(|text| text.chars().count());
    widths.max().unwrap_or_default().min(100)
}

/// The key, escaped, because clients choose its values; or a note for a rule without a key.
pub(crate) fn name(key: &str) -> String {
    if key.is_empty() {
        "(all callers)".to_owned()
    } else {
        escaped(key)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit, remaining, ..
        } = self;
        if *limit == Limit::MAX_COUNT {
            if !matches!(self.state, State::Blocked) {
                write!(f, "{} used ", self.used())?;
            }
            f.write_str("(each call says its `max`) ")?;
        } else {
            write!(f, "{remaining} of {limit} left ")?;
        }
        match &self.period {
            Some(period) => write!(f, "until {period}"),
            None => write!(f, "in {}", format_duration(self.window)),
        }?;
        match self.state {
            State::Allowed if self.is_untouched() || self.period.is_some() => Ok(()),
            State::Allowed => write!(f, ", all of them in {}", rounded(self.reset_after)),
            State::Refused => f.write_str(", refused"),
            State::Blocked => f.write_str(", blocked"),
        }?;
        match (&self.state, &self.period, self.retry_after) {
            // The end of the period has been printed already.
            (State::Refused, Some(_), _) | (_, _, None) => Ok(()),
            // The limits may refuse it for longer than the block.
            (State::Blocked, _, Some(wait)) => write!(f, ", admitted in {}", rounded(wait)),
            (_, _, Some(wait)) => write!(f, " for {}", rounded(wait)),
        }?;
        if self.is_in_shadow && !self.is_allowed() {
            f.write_str(", but in shadow mode: its calls run")?;
        }
        Ok(())
    }
}

/// In whole seconds.
fn rounded(duration: Duration) -> impl fmt::Display {
    let more = u64::from(duration.subsec_nanos() > 0);
    format_duration(Duration::from_secs(duration.as_secs().saturating_add(more)))
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn all_seconds<S: Serializer>(windows: &[Window], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(windows.iter().map(|window| window.lasts().as_secs_f64()))
}

#[allow(clippy::ref_option, reason = "what serde calls takes it so")]
fn optional_seconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration
        .map(|duration| duration.as_secs_f64())
        .serialize(serializer)
}

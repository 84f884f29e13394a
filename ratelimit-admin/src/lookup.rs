//! The lookups of support: `find`, the state of a value under each rule, and `top`, the keys that
//! are refused now.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;

use ratelimit_runtime::__private::KeyBuilder;
use ratelimit_runtime::{Key, Limit, Policy, RateLimitError, RateLimiter, Rule};
use serde::Serialize;

use crate::in_force::{InForce, RuleInForce};
use crate::printable::escaped;
use crate::report::{Standing, keys_of, name};
use crate::rules::{KeysOfRule, RuleKeys, Unread};

/// The state of a value under each rule whose key it can be.
#[derive(Serialize)]
pub(crate) struct Found {
    rules: Vec<FoundRule>,
    /// `true` if the limits are those of policies, without their overrides.
    #[serde(
        rename = "without_overrides",
        skip_serializing_if = "std::ops::Not::not"
    )]
    is_without_overrides: bool,
    left_out: Vec<LeftOut>,
    /// Lines of Redis that could not be read.
    skipped: Vec<String>,
    /// Keys that could not be read.
    #[serde(skip_serializing_if = "Unread::is_empty")]
    pub(crate) unread: Unread,
}

#[derive(Serialize)]
struct FoundRule {
    rule: String,
    key: String,
    /// `None` where the rule limits only calls in flight.
    limits: Option<Standing>,
    policy: Option<String>,
    in_flight: Option<u64>,
    concurrent: Option<u64>,
}

/// A rule that was not asked, and why.
#[derive(Serialize)]
struct LeftOut {
    rule: String,
    why: String,
}

/// The keys that are refused or blocked now.
#[derive(Serialize)]
pub(crate) struct Top {
    keys: Vec<Standing>,
    /// The number of rules that Redis knows.
    #[serde(skip)]
    rules: usize,
    /// The number of keys looked at.
    looked_at: usize,
    /// `true` if all keys of the rules were looked at.
    complete: bool,
    /// `true` if the limits are those of policies, without their overrides.
    #[serde(
        rename = "without_overrides",
        skip_serializing_if = "std::ops::Not::not"
    )]
    is_without_overrides: bool,
    left_out: Vec<LeftOut>,
    skipped: Vec<String>,
    #[serde(skip_serializing_if = "Unread::is_empty")]
    pub(crate) unread: Unread,
}

/// The rule for the program's limiter, whose policy of this number has the limits.
fn asked(rule: &RuleInForce, number: usize) -> Rule {
    let any = Limit::per_second(1);
    Rule::named(rule.name.as_str(), any).with_policy_named(policy_name(number))
}

/// The name of a policy of the program's limiter.
pub(crate) fn policy_name(number: usize) -> String {
    format!("{number}")
}

/// The rule's key for the value, or the reason why the value makes none.
fn rendered(rule: &RuleInForce, value: &str) -> Result<Key, String> {
    let template = match rule.line.key.as_deref() {
        None => return Err("its key is not known: give the rule `with_template`".to_owned()),
        Some("") => return Err("it has no key: all callers share one bucket".to_owned()),
        Some(template) => template,
    };
    let pieces = pieces(template).ok_or("its template is damaged")?;
    let placeholders = pieces.len() / 2;
    if placeholders != 1 {
        return Err(format!(
            "its key has {placeholders} values, {template}: `ratelimit-admin list` has its keys"
        ));
    }
    let other = |what: &str| format!("its key {template} takes {what}");
    let kind = rule.line.kinds.first().map_or("other", String::as_str);
    let mut key = KeyBuilder::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at % 2 == 1 {
            match kind {
                "text" => key.part(&*spelt(piece, value)),
                "number" => number(&mut key, value).ok_or_else(|| other("a whole number"))?,
                "address" => {
                    let network = value.strip_suffix("/64").filter(|text| text.contains(':'));
                    let address: Result<IpAddr, _> = network.unwrap_or(value).parse();
                    key.part(&address.map_err(|_| other("an IP address"))?);
                }
                _ => {
                    let what = "a value that is no text, number or address";
                    return Err(other(what) + ": `ratelimit-admin list` has its keys");
                }
            }
        } else {
            key.text(piece);
        }
    }
    Ok(key.finish())
}

/// Applies the last methods of a placeholder, such as `email.trim().to_lowercase()`, to a text.
/// Applying them again changes nothing.
fn spelt(placeholder: &str, text: &str) -> String {
    let spelling = |method: &str| -> Option<fn(&str) -> String> {
        Some(match method.trim() {
            "trim()" => |text| text.trim().to_owned(),
            "to_lowercase()" => str::to_lowercase,
            "to_uppercase()" => str::to_uppercase,
            "to_ascii_lowercase()" => str::to_ascii_lowercase,
            "to_ascii_uppercase()" => str::to_ascii_uppercase,
            "as_str()" | "clone()" | "to_owned()" | "to_string()" => str::to_owned,
            _ => return None,
        })
    };
    let last: Vec<_> = placeholder.rsplit('.').map_while(spelling).collect();
    let spell = |text: String, spell: &fn(&str) -> String| spell(&text);
    last.iter().rev().fold(text.to_owned(), spell)
}

/// The message for a key in clear, which no call of the rule has.
const HASHED: &str = "its keys are hashed: say the --secret of the service";

/// The message where the command also takes a digest.
pub(crate) fn hashed() -> String {
    format!("{HASHED}, or the key as `list` prints it")
}

/// `true` for a key as a service that hashes keys stores it.
pub(crate) fn is_digest(key: &[u8]) -> bool {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = key.strip_prefix(b"#");
    digits.is_some_and(|digits| digits.len() == 32 && digits.iter().all(is_hex))
}

/// The key that the rule's template makes of a value; `None` if the value itself is the rendered
/// key, or the key is a single text.
///
/// # Errors
///
/// If no call has such a key.
pub(crate) fn key_of(
    rule: &RuleInForce,
    value: Option<&str>,
    has_secret: bool,
) -> Result<Option<Key>, String> {
    let is_digest = |value: &str| is_digest(value.as_bytes());
    if rule.is_hashed() && !has_secret && value.is_some_and(|value| !is_digest(value)) {
        return Err(hashed());
    }
    let Some(template) = rule.line.key.as_deref() else {
        return Ok(None);
    };
    match (value, template) {
        (None, "") => Ok(None),
        (None, _) => Err(format!(
            "its key is {template}: say it in place of --global"
        )),
        (Some(_), "") => Err("it has no key, all callers share one bucket: say --global".into()),
        (Some(value), _) if is_digest(value) => Ok(None),
        (Some(value), _) if value.contains(['<', '>']) => {
            if shape(template).is_some_and(|shape| shape != without_values(value)) {
                return Err(format!("its key is {template}"));
            }
            let said = Key::from_rendered(value).map_err(|error| format!("{value}: {error}"))?;
            match bare(template, value).map(|bare| rendered(rule, &bare)) {
                Some(Ok(key)) if key != said => Err(format!(
                    "no call has the key {value}: say {}",
                    String::from_utf8_lossy(key.as_bytes())
                )),
                _ => Ok(None),
            }
        }
        // Of a key made by hand the kind is not known.
        (Some(value), _) if rule.line.kinds.is_empty() && is_plain(template, value) => Ok(None),
        (Some(value), _) => {
            if let Some(one) = one_spelling(value).filter(|one| one != value)
                && rule.line.kinds.first().is_some_and(|kind| kind == "text")
            {
                return Err(format!(
                    "write {one}, as types of addresses and of UUIDs do, or the key as `list` \
                     prints it"
                ));
            }
            rendered(rule, value).map(Some)
        }
    }
}

/// `true` if the key is the value alone, spelt as it is.
fn is_plain(template: &str, value: &str) -> bool {
    matches!(pieces(template).as_deref(), Some([before, placeholder, behind])
        if before.is_empty() && behind.is_empty() && spelt(placeholder, value) == value)
}

/// The value in a rendered key of a template with one.
fn bare(template: &str, rendered: &str) -> Option<String> {
    pieces(template).filter(|pieces| pieces.len() == 3)?;
    let (_, value) = rendered.split_once('<')?;
    let (value, _) = value.rsplit_once('>')?;
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// An address or a UUID as its type writes it.
fn one_spelling(value: &str) -> Option<String> {
    if let Ok(address) = value.parse::<IpAddr>() {
        return Some(address.to_canonical().to_string());
    }
    let mut digits = value.replace('-', "").to_ascii_lowercase();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_uuid.then(|| {
        for at in [20, 16, 12, 8] {
            digits.insert(at, '-');
        }
        digits
    })
}

/// A template's rendered key with empty values; `None` if the template is damaged.
fn shape(template: &str) -> Option<String> {
    let mut key = KeyBuilder::new();
    for (at, piece) in pieces(template)?.iter().enumerate() {
        if at % 2 == 1 {
            key.part("");
        } else {
            key.text(piece);
        }
    }
    String::from_utf8(key.finish().as_bytes().to_vec()).ok()
}

/// `ip:<>` of `ip:<192.0.2.1>`.
fn without_values(rendered: &str) -> String {
    let mut parts = rendered.split('<');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        let behind = part.split_once('>').map_or("", |(_, behind)| behind);
        format!("{all}<>{behind}")
    })
}

fn number(key: &mut KeyBuilder, value: &str) -> Option<()> {
    let signed = value.parse::<i128>().ok().map(|number| key.part(&number));
    signed.or_else(|| value.parse::<u128>().ok().map(|number| key.part(&number)))
}

/// The texts of a template, with a placeholder after each but the last; `None` for a text that is
/// no template.
fn pieces(template: &str) -> Option<Vec<String>> {
    let (mut pieces, mut text) = (Vec::new(), String::new());
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if "<>{}".contains(c) && chars.next_if_eq(&c).is_some() {
            text.push(c);
        } else if let '<' | '{' = c {
            let close = if c == '<' { '>' } else { '}' };
            pieces.push(std::mem::take(&mut text));
            let mut placeholder = String::new();
            while let inside = chars.next()?
                && inside != close
            {
                placeholder.push(inside);
            }
            pieces.push(placeholder);
        } else if let '>' | '}' = c {
            return None;
        } else {
            text.push(c);
        }
    }
    pieces.push(text);
    Some(pieces)
}

/// Looks at the value under each rule. `limiter` makes the limiter from the policies to ask by.
/// Policies of a file replace those that Redis knows.
pub(crate) async fn find<E: From<RateLimitError>>(
    in_force: InForce,
    value: &str,
    file: Option<&HashMap<String, Policy>>,
    has_secret: bool,
    limiter: impl AsyncFnOnce(Vec<Policy>) -> Result<RateLimiter, E>,
) -> Result<Found, E> {
    let (mut left_out, mut looks, mut policies) = (Vec::new(), Vec::new(), Vec::new());
    for rule in in_force.rules {
        let known = match &rule.policy {
            Some(_) => rule.limits().map(Some),
            None => rule.supported().map(|()| None),
        };
        let policy = known.and_then(|known| Ok(of_file(&rule, known, file)?.cloned()));
        let key = if rule.is_hashed() && !has_secret {
            Err(HASHED.to_owned())
        } else {
            rendered(&rule, value)
        };
        match key.and_then(|key| Ok((key, policy?))) {
            Ok((key, policy)) => {
                looks.push((rule, key, policy.is_some().then_some(policies.len())));
                policies.extend(policy);
            }
            Err(why) => left_out.push(LeftOut::new(&rule, why)),
        }
    }
    let (mut rules, mut unread) = (Vec::new(), Unread::default());
    if !looks.is_empty() {
        let limiter = limiter(policies.clone()).await?;
        for (rule, key, number) in looks {
            let text = String::from_utf8_lossy(key.as_bytes()).into_owned();
            let of_rule = format!("{} {text}", rule.name);
            let mut standing = None;
            if let Some((number, policy)) = number.and_then(|at| Some((at, policies.get(at)?))) {
                let decision = limiter.peek(&asked(&rule, number), &key).await;
                if let Err(RateLimitError::Unavailable(why)) = decision {
                    left_out.push(LeftOut::new(&rule, why.to_string()));
                    unread.miss("a master".to_owned(), why);
                    continue;
                }
                let Some(decision) = unread.unless_foreign(&of_rule, decision)? else {
                    continue;
                };
                let found = Standing::new(&key, &decision, policy);
                standing = Some(found.in_shadow(rule.is_in_shadow()));
            }
            let mut in_flight = None;
            if let Some(most) = rule.line.concurrent {
                let any = Limit::per_second(1);
                let asked = Rule::named(rule.name.as_str(), any).with_concurrent(most);
                let calls = limiter.in_flight(&asked, &key).await;
                if let Err(RateLimitError::Unavailable(why)) = calls {
                    left_out.push(LeftOut::new(&rule, why.to_string()));
                    unread.miss("a master".to_owned(), why);
                    continue;
                }
                let Some(calls) = unread.unless_foreign(&of_rule, calls)? else {
                    continue;
                };
                in_flight = Some(calls);
            }
            rules.push(FoundRule {
                rule: rule.name,
                key: text,
                limits: standing,
                policy: rule.line.policy,
                in_flight,
                concurrent: rule.line.concurrent,
            });
        }
    }
    if rules.is_empty() {
        unread.none_missing()?;
    }
    Ok(Found {
        is_without_overrides: file.is_none() && rules.iter().any(|rule| rule.policy.is_some()),
        rules,
        left_out,
        skipped: in_force.skipped,
        unread,
    })
}

/// The limits of the rule's policy in the file, if there are both; else those `known`.
fn of_file<'p>(
    rule: &RuleInForce,
    known: Option<&'p Policy>,
    file: Option<&'p HashMap<String, Policy>>,
) -> Result<Option<&'p Policy>, String> {
    let (Some(file), Some(name)) = (file, &rule.line.policy) else {
        return Ok(known);
    };
    let missing = || format!("the file has no policy {name}");
    file.get(name).map(Some).ok_or_else(missing)
}

/// Looks at the `keys` of these rules, by their numbers, and keeps the refused ones, the longest
/// wait first.
pub(crate) async fn top<E: From<RateLimitError>>(
    in_force: InForce,
    limiter: impl AsyncFnOnce(Vec<Policy>) -> Result<RateLimiter, E>,
    keys: impl AsyncFnOnce(
        BTreeMap<RuleKeys, usize>,
        &mut Unread,
    ) -> Result<(BTreeMap<usize, KeysOfRule>, bool), E>,
) -> Result<Top, E> {
    let (mut left_out, mut looks, mut policies) = (Vec::new(), Vec::new(), Vec::new());
    for rule in &in_force.rules {
        // Of other rules it is not known which keys the limits refuse.
        let limits = match rule.limits() {
            Ok(_) if rule.is_max_per_call() => Err("each call says its `max`".to_owned()),
            Ok(_) if in_force.has_policies(&rule.name) => {
                Err("each call says its policy".to_owned())
            }
            limits => limits,
        };
        match limits {
            Ok(policy) => {
                policies.push(policy.clone());
                looks.push(rule);
            }
            Err(why) => left_out.push(LeftOut::new(rule, why)),
        }
    }
    let mut top = Top {
        keys: Vec::new(),
        rules: in_force.rules.len(),
        looked_at: 0,
        complete: true,
        is_without_overrides: looks.iter().any(|rule| rule.line.policy.is_some()),
        left_out,
        skipped: in_force.skipped.clone(),
        unread: Unread::default(),
    };
    if !looks.is_empty() {
        let limiter = limiter(policies.clone()).await?;
        let of = looks.iter().map(|rule| keys_of(rule)).zip(0..).collect();
        let (mut found, complete) = keys(of, &mut top.unread).await?;
        top.complete = complete;
        for (number, (rule, policy)) in looks.iter().zip(&policies).enumerate() {
            let keys = found.remove(&number).unwrap_or_default();
            let asked = asked(rule, number);
            for (key, stored) in keys {
                top.looked_at += 1;
                let decision = limiter.peek(&asked, &key).await;
                if let Some(decision) = top.unread.unless_foreign(&stored, decision)? {
                    let standing = Standing::new(&key, &decision, policy);
                    if !standing.is_allowed() {
                        top.keys.push(standing.in_shadow(rule.is_in_shadow()));
                    }
                }
            }
        }
    }
    top.keys
        .sort_by_key(|standing| Reverse(standing.retry_after));
    Ok(top)
}

impl Top {
    /// `true` if everything on Redis could be read.
    pub(crate) fn is_whole(&self) -> bool {
        self.unread.is_whole() && self.skipped.is_empty()
    }
}

impl Found {
    /// `true` if everything on Redis could be read.
    pub(crate) fn is_whole(&self) -> bool {
        self.unread.is_whole() && self.skipped.is_empty()
    }
}

/// The note printed where limits lack the overrides of their policies.
pub(crate) const OVERRIDES: &str = "\na key with an override in its policy has another limit: see \
     `ratelimit-admin find VALUE --policies FILE`";

impl FoundRule {
    /// `true` if nothing is counted, blocked or in flight.
    fn is_untouched(&self) -> bool {
        self.limits.as_ref().is_none_or(Standing::is_untouched) && self.in_flight.unwrap_or(0) == 0
    }
}

impl LeftOut {
    fn new(rule: &RuleInForce, why: String) -> Self {
        let policy = rule.line.policy.as_ref();
        let policy = policy.map_or_else(String::new, |policy| format!(" (policy {policy})"));
        Self {
            rule: format!("{}{policy}", rule.name),
            why,
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", escaped(&self.rule), escaped(&self.why))
    }
}

/// The rules that were left out, and the lines that could not be read.
fn write_rest(
    f: &mut fmt::Formatter<'_>,
    left_out: &[LeftOut],
    skipped: &[String],
    unread: &Unread,
) -> fmt::Result {
    if !left_out.is_empty() {
        f.write_str("\nleft out:")?;
    }
    for rule in left_out {
        write!(f, "\n  {rule}")?;
    }
    for line in skipped {
        write!(f, "\n{line}")?;
    }
    write!(f, "{unread}")
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules {
            let mut parts = Vec::new();
            parts.extend(rule.limits.as_ref().map(Standing::with_used));
            if let (Some(calls), Some(most)) = (rule.in_flight, rule.concurrent) {
                parts.push(format!("{calls} of {most} in flight"));
            }
            parts.extend(
                rule.policy
                    .as_ref()
                    .map(|policy| format!("policy {policy}")),
            );
            let parts = escaped(&parts.join("; "));
            writeln!(f, "{} {}: {parts}", escaped(&rule.rule), name(&rule.key))?;
        }
        match self.rules.len() {
            0 => f.write_str("no rule that Redis knows under this prefix has such a key")?,
            1 => f.write_str("1 rule")?,
            rules => write!(f, "{rules} rules")?,
        }
        if !self.rules.is_empty() && self.rules.iter().all(FoundRule::is_untouched) {
            f.write_str(
                "\nnothing is counted for it; are prefix, secret and --no-scripts those of the \
                 service?",
            )?;
        }
        if self.is_without_overrides {
            f.write_str(OVERRIDES)?;
        }
        write_rest(f, &self.left_out, &self.skipped, &self.unread)
    }
}

impl fmt::Display for Top {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for standing in &self.keys {
            let (of, key) = standing.rule_and_key();
            writeln!(f, "{} {}: {standing}", escaped(of), name(key))?;
        }
        write!(
            f,
            "{} of {} keys are refused or blocked now",
            self.keys.len(),
            self.looked_at
        )?;
        if self.rules == 0 {
            f.write_str(
                ": no limiter has written its rules under this prefix; `ratelimit-admin rules` \
                 lists all prefixes, `list RULE --limits …` the keys of a rule",
            )?;
        }
        if self.looked_at == 0 && self.rules > self.left_out.len() {
            f.write_str(": no key of a rule is stored; is --no-scripts right?")?;
        }
        if !self.complete {
            f.write_str(", and there are more keys, which were not looked at: see --max-keys")?;
        }
        if self.is_without_overrides {
            f.write_str(OVERRIDES)?;
        }
        write_rest(f, &self.left_out, &self.skipped, &self.unread)
    }
}

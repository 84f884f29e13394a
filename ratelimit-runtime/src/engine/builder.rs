//! [`CheckBuilder`]: collects the values of a call, and makes a [`Check`] of them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::check::{Asked, Check, PlaceCheck};
use super::state::{Engine, waits_in_vain};
use crate::error::RateLimitError;
use crate::key::{self, Key, KeyBuf, KeyPart};
use crate::observe;
use crate::rule::{self, Rule, Terms};
use crate::store::{Request, Reserves};

/// A check in the making: what one call says to a rule. It is small, because it moves from hand to
/// hand.
pub struct CheckBuilder<'r> {
    rule: &'r Rule,
    /// Another `max` for the first limit.
    max: Option<u64>,
    asked: Asked,
    /// The limiter to ask, where the attribute names one.
    engine: Option<Arc<Engine>>,
    /// The policy of this call, where its rule leaves that to it.
    policy: Option<Box<str>>,
    /// The rendered key, after what all keys of the rule begin with.
    key: KeyBuf,
}

/// A rule of an attribute whose calls name the policy is used by hand.
const NO_POLICY: &str = "the policy of this rule is named by each call: say which by `with_policy_named`";

impl<'r> CheckBuilder<'r> {
    #[allow(clippy::inline_always, reason = "it is made in its place, and not moved there")]
    #[inline(always)]
    pub(crate) fn of(rule: &'r Rule, engine: Option<Arc<Engine>>) -> Self {
        let Terms { cost, shadow, .. } = *rule.terms();
        let asked = Asked { cost, reserves: Reserves::Nothing, shadow };
        Self { rule, max: None, asked, engine, policy: None, key: KeyBuf::new() }
    }

    /// The check of this key, by hand.
    #[inline]
    pub(crate) fn key(&mut self, key: &Key) {
        self.begin();
        self.key.extend_from_slice(key.as_bytes());
    }

    /// Another `max` for the first limit.
    pub fn max(&mut self, max: u64) {
        self.max = Some(max);
    }

    /// The policy of this call.
    pub fn policy(&mut self, name: Box<str>) {
        self.policy = Some(name);
    }

    /// What this call weighs.
    pub fn cost(&mut self, cost: u64) {
        self.asked.cost = cost;
    }

    /// Decide and record, never refuse.
    pub fn shadow(&mut self, on: bool) {
        self.asked.shadow = on;
    }

    /// Only reserve: what the function returns decides whether the call counts.
    pub fn reserve(&mut self) {
        self.asked.reserves = Reserves::Cost;
    }

    /// Only reserve, at an estimate, which is at least 1: there is something to commit then. What
    /// the function returns says what the call costs.
    pub fn reserve_estimate(&mut self) {
        self.asked.reserves = Reserves::Estimate;
        self.asked.cost = self.asked.cost.max(1);
    }

    /// Text of the template.
    pub fn text(&mut self, literal: &'static str) {
        self.begin();
        key::push_text(&mut self.key, literal);
    }

    /// The value of a placeholder.
    #[inline]
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        self.begin();
        key::push_part(&mut self.key, value);
    }

    /// Begins the key, if nothing has been rendered yet.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if self.key.is_empty() {
            self.key.extend_from_slice(head(self.rule));
        }
    }

    /// The limiter to ask, where the attribute names one. It is reported if this call has made it:
    /// it has counted nothing, and is not asked again.
    #[inline]
    pub(crate) fn take_engine(&mut self) -> Option<Arc<Engine>> {
        let engine = self.engine.as_ref()?;
        self.report_made_per_call(engine);
        self.engine.take()
    }

    /// The limiter is one that keeps counts in memory, and that only this check refers to. On
    /// another store, which its limiters may share, nothing is lost with it.
    fn report_made_per_call(&self, engine: &Arc<Engine>) {
        if engine.in_memory && Arc::strong_count(engine) == 1 && self.rule.known_by().report_made_per_call() {
            observe::log::limiter_per_call(self.rule.name());
        }
    }

    /// The check for this engine, unless something differs from what the rule says, or the stored
    /// key from what was rendered by more than the limiter's prefix.
    #[allow(clippy::inline_always, reason = "a call to it would cost as much as what it does")]
    #[inline(always)]
    pub(crate) fn plain_check(&mut self, engine: &Engine) -> Option<Check<'_>> {
        if engine.key_hasher.is_some() || !self.is_as_ruled(engine) {
            return None;
        }
        let prefix = engine.prefix.as_bytes();
        let (asked, resolved, terms) = (self.asked, self.rule.resolved(), self.rule.terms());
        let rule_len = prefix.len() + resolved.head.len();
        let check = Check::new(resolved.name, terms, asked, self.key.behind(prefix)?, rule_len);
        // It takes no more than the rule does, unless it is a reservation.
        Some(Check { is_supported: asked.reserves == Reserves::Nothing, ..check })
    }

    /// The place that the call asks for, if its rule limits calls in flight; `max` is how many there
    /// are, where the call says so.
    pub(crate) fn place(&self, engine: &Engine, max: Option<u64>) -> Option<PlaceCheck> {
        let limit = self.rule.in_flight_limit()?;
        let mut head = String::new();
        rule::push_in_flight_head(&mut head, &self.rule.resolved().escaped);
        Some(PlaceCheck {
            name: self.rule.resolved().name,
            key: (*stored_key(engine, &head, self.rendered())).into(),
            max: max.unwrap_or(limit.max),
            lease: limit.lease,
            index: 0,
        })
    }

    /// Makes the check for this engine, for as long as `work` takes: the only way to one, and the
    /// only place where keys are hashed.
    #[inline]
    pub(crate) fn with_check<T>(&mut self, engine: &Engine, work: impl FnOnce(&Check<'_>) -> T) -> T {
        match self.plain_check(engine) {
            Some(check) => work(&check),
            None => self.with_changed_check(engine, work),
        }
    }

    #[inline(never)]
    fn with_changed_check<T>(&self, engine: &Engine, work: impl FnOnce(&Check<'_>) -> T) -> T {
        let (resolved, rendered) = (self.rule.resolved(), self.rendered());
        let changes = (!self.is_as_ruled(engine)).then(|| Changes::new(self, engine, rendered));
        let changes = changes.as_ref();
        let head = changes.and_then(|changes| changes.head.as_deref()).unwrap_or(&resolved.head);
        let key = stored_key(engine, head, rendered);
        let terms = changes.map_or(self.rule.terms(), |changes| &changes.terms);
        let mut asked = self.asked;
        if let Some(shadow) = changes.and_then(|changes| changes.shadow) {
            asked.shadow = shadow;
        }
        let check = Check::new(resolved.name, terms, asked, &key, engine.prefix.len() + head.len());
        work(&Check { broken: changes.and_then(|changes| changes.broken.as_ref()), ..check })
    }

    /// The key without what all keys of the rule begin with.
    fn rendered(&self) -> &[u8] {
        self.key.get(head(self.rule).len()..).unwrap_or_default()
    }

    /// Whether the limiter has met the rule, and the check is as that says, but for its cost.
    #[inline]
    fn is_as_ruled(&self, engine: &Engine) -> bool {
        self.rule.is_plain() && self.max.is_none() && self.rule.known_by().contains(engine.id)
    }
}

/// What all keys of the rule begin with, after the prefix.
#[inline]
fn head(rule: &Rule) -> &[u8] {
    rule.resolved().head.as_bytes()
}

/// Whether the store declares all that calls with these terms need.
fn is_supported(engine: &Engine, terms: &Terms) -> bool {
    engine.supports(&Request { block: terms.block, ..Request::new(&[], terms.algorithm(), terms.limits()) })
}

/// The key as the store gets it.
fn stored_key(engine: &Engine, head: &str, rendered: &[u8]) -> KeyBuf {
    let mut key = KeyBuf::from_slice(engine.prefix.as_bytes());
    key.extend_from_slice(head.as_bytes());
    let rule_len = key.len();
    key.extend_from_slice(rendered);
    if let Some(hasher) = &engine.key_hasher {
        hasher.hide(&mut key, rule_len);
    }
    key
}

/// What differs from the rule: by its policy, by the call, or because the limiter has something
/// against it when it first meets it.
struct Changes {
    terms: Terms,
    /// What the policy says, which wins over the call.
    shadow: Option<bool>,
    head: Option<String>,
    broken: Option<RateLimitError>,
}

impl Changes {
    fn new(check: &CheckBuilder<'_>, engine: &Engine, rendered: &[u8]) -> Self {
        let CheckBuilder { rule, max, .. } = check;
        let mut changes = Self { terms: *rule.terms(), shadow: None, head: None, broken: None };
        let head = rule.head();
        let is_current = matches!(head, Cow::Borrowed(_));
        match check.policy.as_deref().or(rule.policy()) {
            Some(name) => changes.adopt(rule, name, engine, rendered),
            None if rule.has_policy() => changes.broken = Some(RateLimitError::misconfigured(NO_POLICY)),
            None if is_current => changes.enter_zone(rule),
            None => {
                changes.enter_zone(rule);
                changes.head = Some(head.into_owned());
            }
        }
        // An explicit name with a policy may be another's with limits: their keys differ.
        if (!rule.has_policy() || rule.is_derived()) && !rule.known_by().contains(engine.id) {
            let met = if !rule.has_policy() && rule.terms().waits_in_vain() {
                let name = rule.name();
                Err(RateLimitError::misconfigured(format!(
                    "a call of the rule `{name}` either waits or is blocked: leave `with_wait` out, or the block"
                )))
            } else {
                engine.registry.meet(rule)
            };
            match met {
                Ok(()) if is_current && is_supported(engine, rule.terms()) => {
                    rule.known_by().insert(engine.id);
                }
                // Its keys are rendered behind what they began with before the rule was changed, at
                // every call.
                Ok(()) => {}
                Err(error) => changes.broken = Some(error),
            }
        }
        if let Some(max) = max {
            changes.terms = changes.terms.with_max(*max);
        }
        changes
    }

    /// Takes from the policy what the rule leaves to it.
    fn adopt(&mut self, rule: &Rule, name: &str, engine: &Engine, rendered: &[u8]) {
        let policies = engine.policies.load();
        if let Some(policy) = policies.used(name, !rule.terms().wait.is_zero()) {
            self.terms = self.terms.with_policy(policy, rendered);
            self.shadow = policy.shadow;
            if self.terms.waits_in_vain() {
                self.broken = Some(RateLimitError::misconfigured(waits_in_vain(name)));
            }
        } else {
            self.broken = Some(RateLimitError::misconfigured(policies.unknown(name)));
        }
        self.enter_zone(rule);
        let mut head = String::new();
        rule::push_head(&mut head, self.terms.algorithm(), self.terms.limits(), &rule.resolved().escaped);
        self.head = Some(head);
    }

    /// Gives calendar quotas their time zone.
    #[inline]
    fn enter_zone(&mut self, rule: &Rule) {
        if self.terms.has_zone() {
            self.enter_own_zone(rule);
        }
    }

    /// A policy may have calendar quotas or not, while limits of the rule's own without one say
    /// their zone in vain.
    #[inline(never)]
    fn enter_own_zone(&mut self, rule: &Rule) {
        match self.terms.in_its_zone() {
            Ok(terms) if rule.has_policy() || terms.has_calendar() => self.terms = terms,
            Ok(_) => {
                self.broken = Some(RateLimitError::misconfigured(format!(
                    "the rule `{}` has a time zone and no calendar quota, which alone begins by it: write a limit such as \
                     `Limit::calendar(500, CalendarUnit::Day)`, or leave `with_zone` out",
                    rule.name()
                )));
            }
            Err(unknown) => self.broken = Some(RateLimitError::misconfigured(unknown)),
        }
    }
}

impl fmt::Debug for CheckBuilder<'_> {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckBuilder")
            .field("rule", &self.rule.name())
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}

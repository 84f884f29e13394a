//! [`CheckBuilder`]: collects the values of a call, and makes a [`Check`] of them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::call::OwnedCall;
use super::check::{Asked, Check};
use super::permit::PlaceCheck;
use super::state::{Engine, waits_in_vain};
use crate::error::RateLimitError;
use crate::key::{self, Key, KeyBuf, KeyPart};
use crate::observe;
use crate::rule::{self, Rule, Terms};
use crate::store::{Request, Reserves};

/// A check in the making: the values that one call gives to a rule. It is small, because it is
/// moved often.
pub struct CheckBuilder<'r> {
    rule: &'r Rule,
    /// Another `max` for the first limit.
    max: Option<u64>,
    asked: Asked,
    /// The limiter to ask, where the attribute names one.
    engine: Option<Arc<Engine>>,
    /// The policy of this call, where its rule leaves that to it.
    policy: Option<Box<str>>,
    /// The rendered key, behind the beginning of all keys of the rule.
    key: KeyBuf,
}

impl<'r> CheckBuilder<'r> {
    #[allow(
        clippy::inline_always,
        reason = "it is made in its place, and not moved there"
    )]
    #[inline(always)]
    pub(crate) fn of(rule: &'r Rule, engine: Option<Arc<Engine>>) -> Self {
        let Terms { cost, shadow, .. } = *rule.terms();
        let asked = Asked {
            cost,
            reserves: Reserves::Nothing,
            shadow,
        };
        Self {
            rule,
            max: None,
            asked,
            engine,
            policy: None,
            key: KeyBuf::new(),
        }
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

    /// The cost of this call.
    pub fn cost(&mut self, cost: u64) {
        self.asked.cost = cost;
    }

    /// Decides and records, but never refuses, if `on`.
    pub fn shadow(&mut self, on: bool) {
        self.asked.shadow = on;
    }

    /// Reserves the cost: the return value of the function decides whether the call counts.
    pub fn reserve(&mut self) {
        self.asked.reserves = Reserves::Cost;
    }

    /// Reserves an estimate, which is at least 1, so that there is something to commit. The return
    /// value of the function gives the actual cost.
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

    /// The limiter to ask, where the attribute names one.
    #[inline]
    pub(crate) fn take_engine(&mut self) -> Option<Arc<Engine>> {
        let engine = self.engine.take()?;
        // A limiter in memory that only this check refers to was made by this call: it has counted
        // nothing. On another store, which its limiters may share, nothing is lost.
        if engine.in_memory
            && Arc::strong_count(&engine) == 1
            && self.rule.known_by().report_made_per_call()
        {
            observe::log::limiter_per_call(self.rule.name());
        }
        Some(engine)
    }

    /// The check for this engine, if the call changes nothing about the rule, and the stored key is
    /// the rendered one behind the limiter's prefix.
    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost as much as what it does"
    )]
    #[inline(always)]
    pub(crate) fn plain_check(&mut self, engine: &Engine) -> Option<Check<'_>> {
        if engine.key_hasher.is_some() || !self.is_as_ruled(engine) {
            return None;
        }
        let prefix = engine.prefix.as_bytes();
        let (asked, resolved, terms) = (self.asked, self.rule.resolved(), self.rule.terms());
        let rule_len = prefix.len() + resolved.head.len();
        let check = Check::new(
            resolved.name,
            terms,
            asked,
            self.key.behind(prefix)?,
            rule_len,
        );
        // It needs no more features than the rule does, unless it is a reservation.
        Some(Check {
            is_supported: asked.reserves == Reserves::Nothing,
            ..check
        })
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

    /// The check for this engine as a call of its own.
    pub(crate) fn call(&mut self, engine: &Arc<Engine>) -> OwnedCall {
        match self.plain_check(engine) {
            Some(check) => OwnedCall::new(Arc::clone(engine), &check),
            None => self.changed_call(engine),
        }
    }

    /// The same where it is no [plain check](Self::plain_check).
    #[inline(never)]
    pub(crate) fn changed_call(&self, engine: &Arc<Engine>) -> OwnedCall {
        let (resolved, rendered) = (self.rule.resolved(), self.rendered());
        let mut changes = Changes {
            terms: *self.rule.terms(),
            shadow: self.asked.shadow,
            head: None,
        };
        let is_changed = !self.is_as_ruled(engine);
        let broken = if is_changed {
            changes.make(self, engine, rendered).err()
        } else {
            None
        };
        let Changes {
            terms,
            shadow,
            head,
        } = changes;
        let head = head.as_deref().unwrap_or(&resolved.head);
        OwnedCall {
            engine: Arc::clone(engine),
            name: resolved.name,
            terms,
            asked: Asked {
                shadow,
                ..self.asked
            },
            key: stored_key(engine, head, rendered),
            rule_len: engine.prefix.len() + head.len(),
            broken: broken.map(Box::new),
            place: None,
        }
    }

    /// The key without the beginning of all keys of the rule.
    fn rendered(&self) -> &[u8] {
        self.key.get(head(self.rule).len()..).unwrap_or_default()
    }

    /// Whether the limiter has met the rule, and the check differs from it by its cost at most.
    #[inline]
    fn is_as_ruled(&self, engine: &Engine) -> bool {
        self.rule.is_plain() && self.max.is_none() && self.rule.known_by().contains(engine.id)
    }
}

/// The beginning of all keys of the rule, after the prefix.
#[inline]
fn head(rule: &Rule) -> &[u8] {
    rule.resolved().head.as_bytes()
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

/// The differences from the rule: by its policy, by the call, or because it was changed after it
/// had been used.
struct Changes {
    terms: Terms,
    shadow: bool,
    head: Option<String>,
}

impl Changes {
    /// # Errors
    ///
    /// A mistake in the rule, or a conflict with other rules when the limiter first meets it.
    /// Changes until then stay.
    fn make(
        &mut self,
        check: &CheckBuilder<'_>,
        engine: &Engine,
        rendered: &[u8],
    ) -> Result<(), RateLimitError> {
        let CheckBuilder { rule, max, .. } = check;
        let head = rule.head();
        let is_current = matches!(head, Cow::Borrowed(_));
        if let Some(name) = check.policy.as_deref().or(rule.policy()) {
            self.adopt(rule, name, engine, rendered)?;
        } else if rule.has_policy() {
            // A rule of an attribute is used by hand.
            let message =
                "the policy of this rule is named by each call: say which by `with_policy_named`";
            return Err(RateLimitError::misconfigured(message));
        } else {
            self.head = (!is_current).then(|| head.into_owned());
            self.enter_zone(rule)?;
            if self.terms.waits_in_vain() {
                let name = rule.name();
                return Err(RateLimitError::misconfigured(format!(
                    "a call of the rule `{name}` either waits or is blocked: leave `with_wait` out, or the block"
                )));
            }
        }
        // An explicit name with a policy may be another's with limits: their keys differ.
        if (!rule.has_policy() || rule.is_derived()) && !rule.known_by().contains(engine.id) {
            engine.registry.meet(rule)?;
            // A rule that was changed after use is not known: at every call its keys are rendered
            // with the head from before the change.
            let terms = rule.terms();
            let needed = Request {
                block: terms.block,
                ..Request::new(&[], terms.algorithm(), terms.limits())
            };
            if is_current && engine.supports(&needed) {
                rule.known_by().insert(engine.id);
            }
        }
        if let Some(max) = max {
            self.terms = self.terms.with_max(*max);
        }
        Ok(())
    }

    /// Takes the settings of the policy, which win over the rule's and the call's.
    fn adopt(
        &mut self,
        rule: &Rule,
        name: &str,
        engine: &Engine,
        rendered: &[u8],
    ) -> Result<(), RateLimitError> {
        let policies = engine.policies.load();
        let Some(policy) = policies.used(name, !rule.terms().wait.is_zero()) else {
            return Err(RateLimitError::misconfigured(policies.unknown(name)));
        };
        self.terms = self.terms.with_policy(policy, rendered);
        self.shadow = policy.shadow.unwrap_or(self.shadow);
        if self.terms.waits_in_vain() {
            return Err(RateLimitError::misconfigured(waits_in_vain(name)));
        }
        self.enter_zone(rule)?;
        let mut head = String::new();
        rule::push_head(
            &mut head,
            self.terms.algorithm(),
            self.terms.limits(),
            &rule.resolved().escaped,
        );
        self.head = Some(head);
        Ok(())
    }

    /// Gives calendar quotas their time zone. A policy may have calendar quotas or not; in limits
    /// of the rule's own without one, a zone is a mistake.
    fn enter_zone(&mut self, rule: &Rule) -> Result<(), RateLimitError> {
        if !self.terms.has_zone() {
            return Ok(());
        }
        self.terms = self
            .terms
            .in_its_zone()
            .map_err(RateLimitError::misconfigured)?;
        if rule.has_policy() || self.terms.has_calendar() {
            return Ok(());
        }
        Err(RateLimitError::misconfigured(format!(
            "the rule `{}` has a time zone and no calendar quota, which alone begins by it: write a limit such as \
             `Limit::calendar(500, CalendarUnit::Day)`, or leave `with_zone` out",
            rule.name()
        )))
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

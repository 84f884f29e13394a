//! [`CheckBuilder`]: collects the values of a call, and makes a [`Check`] of them.

use std::fmt;
use std::sync::Arc;

use super::bound::BoundRule;
use super::check::Check;
use super::part::Part;
use super::permit::PermitCheck;
use super::state::Engine;
use crate::key::{self, Key, KeyBuf, KeyPart};
use crate::rule::{Limit, Rule, Terms};
use crate::store::Reserves;

/// A check in the making: the values that one call gives to a rule. It is small, because it is
/// moved often.
pub struct CheckBuilder<'r> {
    rule: &'r Rule,
    /// Another `max` for the first limit.
    max: Option<u64>,
    cost: u64,
    reserves: Reserves,
    shadow: bool,
    /// The limiter to ask, where the attribute names one.
    engine: Option<Arc<Engine>>,
    /// The policy of this call, where its rule leaves that to it.
    policy: Option<Box<str>>,
    /// The rendered key.
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
        Self {
            rule,
            max: None,
            cost,
            reserves: Reserves::Nothing,
            shadow,
            engine,
            policy: None,
            key: KeyBuf::new(),
        }
    }

    /// The check of this key, by hand.
    #[inline]
    pub(crate) fn key(&mut self, key: &Key) {
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
        self.cost = cost;
    }

    /// Decides and records, but never refuses, if `on`.
    pub fn shadow(&mut self, on: bool) {
        self.shadow = on;
    }

    /// Reserves the cost: the return value of the function decides whether the call counts.
    pub fn reserve(&mut self) {
        self.reserves = Reserves::Cost;
    }

    /// Reserves an estimate, which is at least 1, so that there is something to commit. The return
    /// value of the function gives the actual cost.
    pub fn reserve_estimate(&mut self) {
        self.reserves = Reserves::Estimate;
        self.cost = self.cost.max(1);
    }

    /// Text of the template.
    pub fn text(&mut self, literal: &'static str) {
        key::push_text(&mut self.key, literal);
    }

    /// The value of a placeholder.
    #[inline]
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        key::push_part(&mut self.key, value);
    }

    /// The limiter to ask, where the attribute names one.
    #[inline]
    pub(crate) fn take_engine(&mut self) -> Option<Arc<Engine>> {
        self.engine.take()
    }

    /// Decides the check on this limiter: `decide` is called with it.
    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost as much as what it does"
    )]
    #[inline(always)]
    pub(crate) fn with_check<T>(
        &mut self,
        engine: &Engine,
        decide: impl FnOnce(&Check<'_>) -> T,
    ) -> T {
        let rule = self.rule;
        match engine.first_look(rule) {
            Some(bound) if self.policy.is_none() => self.with_bound(engine, bound, decide),
            _ => self.with_rule_bound(engine, decide),
        }
    }

    #[inline(never)]
    fn with_rule_bound<T>(&mut self, engine: &Engine, decide: impl FnOnce(&Check<'_>) -> T) -> T {
        let bound = engine.bind(self.rule, self.policy.as_deref());
        self.with_bound(engine, &bound, decide)
    }

    #[allow(clippy::inline_always, reason = "as that of `with_check`")]
    #[inline(always)]
    fn with_bound<T>(
        &mut self,
        engine: &Engine,
        bound: &Arc<BoundRule>,
        decide: impl FnOnce(&Check<'_>) -> T,
    ) -> T {
        let changed = self.changed_terms(bound);
        let terms = changed.as_ref().unwrap_or(&bound.terms);
        if let Some(hasher) = &engine.key_hasher {
            hasher.hide(&bound.head, &mut self.key);
        }
        let shadow = self.shadow;
        let policy = bound.policy.as_ref();
        let shadow = policy.map_or(shadow, |policy| policy.shadow.unwrap_or(shadow));
        let key = self.key.behind(&bound.head);
        decide(&Check::new(
            bound,
            terms,
            key,
            self.cost,
            self.reserves,
            shadow,
        ))
    }

    /// The terms of this call, where they differ from those of its rule: by another `max`, or
    /// because the policy overrides them for the key.
    #[inline]
    fn changed_terms(&self, bound: &BoundRule) -> Option<Terms> {
        if let Some(policy) = &bound.policy {
            let values = policy.overrides.get(&*self.key)?;
            return Some(bound.terms.with_override(values));
        }
        let max = |limits: &[Limit]| limits.first().map_or(0, Limit::max);
        let own = self.max.unwrap_or_else(|| max(self.rule.limits()));
        (own != max(bound.terms.limits())).then(|| bound.terms.with_max(own))
    }

    /// The check for this limiter, to be kept.
    pub(crate) fn kept(&mut self, engine: &Arc<Engine>) -> Part {
        self.with_check(engine, |check| Part::new(Arc::clone(engine), check))
    }

    /// [`kept`](Self::kept), with the permit that the call asks for where its rule limits calls in
    /// flight; `max` is how many there are, where the call says so.
    pub(crate) fn kept_with_permit(&mut self, engine: &Arc<Engine>, max: Option<u64>) -> Part {
        let mut key = self.key.clone();
        let part = self.kept(engine);
        let permit = part.bound.concurrent.as_ref().map(|concurrent| {
            if let Some(hasher) = &engine.key_hasher {
                hasher.hide(&concurrent.head, &mut key);
            }
            PermitCheck {
                name: part.bound.name,
                key: key.behind(&concurrent.head).into(),
                max: max.unwrap_or(concurrent.limit.max),
                lease: concurrent.limit.lease,
                index: 0,
            }
        });
        part.with_permit(permit)
    }
}

impl fmt::Debug for CheckBuilder<'_> {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckBuilder")
            .field("rule", &self.rule.name())
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

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
        let found;
        let bound = match engine.first_look(self.rule) {
            Some(bound) if self.policy.is_none() => bound,
            _ => {
                found = self.bind(engine);
                &found
            }
        };
        let changed;
        let mut terms = &bound.terms;
        if self.max.is_some() || !bound.is_plain {
            changed = self.change(engine, bound);
            terms = changed.as_ref().unwrap_or(terms);
        }
        let key = self.key.behind(&bound.head);
        let Self {
            cost,
            reserves,
            shadow,
            ..
        } = *self;
        decide(&Check::new(bound, terms, key, cost, reserves, shadow))
    }

    #[inline(never)]
    fn bind(&mut self, engine: &Engine) -> Arc<BoundRule> {
        // It may have been bound from a rule with another `max`.
        self.max = self.max.or_else(|| Some(max_of(self.rule.limits())));
        engine.bind(self.rule, self.policy.as_deref())
    }

    /// Makes what differs from call to call: hides the key, and puts the policy's shadow mode in
    /// the place of the call's. The terms, where they are not those of the bound rule: by another
    /// `max`, or because the policy overrides them for the key.
    #[inline(never)]
    fn change(&mut self, engine: &Engine, bound: &BoundRule) -> Option<Terms> {
        let changed = if let Some(policy) = &bound.policy {
            self.shadow = policy.shadow.unwrap_or(self.shadow);
            let values = policy.overrides.get(&*self.key);
            values.map(|values| bound.terms.with_override(values))
        } else {
            let own = self.max.filter(|max| *max != max_of(bound.terms.limits()));
            own.map(|max| bound.terms.with_max(max))
        };
        if let Some(hasher) = &engine.key_hasher {
            hasher.hide(&bound.head, &mut self.key);
        }
        changed
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
                max: max
                    .filter(|_| !concurrent.is_by_policy)
                    .unwrap_or(concurrent.limit.max),
                lease: concurrent.limit.lease,
                index: 0,
            }
        });
        part.with_permit(permit)
    }
}

/// The `max` that a call may change.
fn max_of(limits: &[Limit]) -> u64 {
    limits.first().map_or(0, Limit::max)
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

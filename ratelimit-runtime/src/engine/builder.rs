//! [`CheckBuilder`]: collects the values of a call, and makes a [`Check`] of them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::bound::{BoundPolicy, BoundRule};
use super::check::Check;
use super::part::Part;
use super::permit::PermitCheck;
use super::state::Engine;
use crate::decision::Decision;
use crate::key::{self, Key, KeyBuf, KeyPart, RenderedKinds};
use crate::rule::{Limit, Rule, Terms};
use crate::store::{BuiltInStore as _, Reserves};

/// A check in the making: collects the values that one call gives to a rule. It is small, because
/// it is moved often.
pub struct CheckBuilder<'r> {
    rule: &'r Rule,
    /// Another `max` for the first limit.
    max: Option<u64>,
    cost: u64,
    reserves: Reserves,
    shadow: bool,
    is_shadow_per_call: bool,
    kinds: RenderedKinds,
    /// The limiter to ask, if the attribute names one.
    engine: Option<Arc<Engine>>,
    /// The policy of this call, if the rule leaves the choice to each call.
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
            shadow: shadow == Some(true),
            is_shadow_per_call: false,
            kinds: RenderedKinds::NONE,
            engine,
            policy: None,
            key: KeyBuf::new(),
        }
    }

    /// Sets the key, for a check made by hand.
    #[inline]
    pub(crate) fn key(&mut self, key: &Key) {
        self.key.extend_from_slice(key.as_bytes());
        self.kinds = RenderedKinds::UNKNOWN;
    }

    /// Replaces the `max` of the first limit for this call; 0 refuses it.
    pub fn max(&mut self, max: u64) {
        self.max = Some(max);
    }

    /// Sets the policy of this call.
    pub fn policy(&mut self, name: Box<str>) {
        self.policy = Some(name);
    }

    /// Sets the cost of this call, in place of the rule's; 0 charges nothing.
    pub fn cost(&mut self, cost: u64) {
        self.cost = cost;
    }

    /// Sets shadow mode: if `on`, the check never refuses.
    pub fn shadow(&mut self, on: bool) {
        self.shadow = on;
        self.is_shadow_per_call = true;
    }

    /// Reserves the cost: the function's return value decides whether the call counts.
    pub fn reserve(&mut self) {
        self.reserves = Reserves::Cost;
    }

    /// Reserves an estimate, of at least 1, so that there is a cost to commit. The function's
    /// return value gives the actual cost.
    pub fn reserve_estimate(&mut self) {
        self.reserves = Reserves::Estimate;
        self.cost = self.cost.max(1);
    }

    /// Adds text of the template to the key.
    pub fn text(&mut self, literal: &'static str) {
        key::push_text(&mut self.key, literal);
    }

    /// Adds the value of a placeholder to the key.
    #[inline]
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        self.kinds.push(T::KIND);
        key::push_part(&mut self.key, value);
    }

    /// Takes the limiter to ask, if the attribute names one.
    #[inline]
    pub(crate) fn take_engine(&mut self) -> Option<Arc<Engine>> {
        self.engine.take()
    }

    /// Makes the check for `engine`, and calls `decide` with it.
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
        let bound = match engine.first_look(self.rule, self.reserves) {
            Some(bound) if self.policy.is_none() => bound,
            _ => {
                found = self.bind(engine);
                &found
            }
        };
        self.with_bound(engine, bound, decide)
    }

    #[allow(clippy::inline_always, reason = "as that of `with_check`")]
    #[inline(always)]
    fn with_bound<T>(
        &mut self,
        engine: &Engine,
        bound: &Arc<BoundRule>,
        decide: impl FnOnce(&Check<'_>) -> T,
    ) -> T {
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
        let is_max_per_call = self.max.is_some();
        // It may have been bound from a rule with another `max`.
        self.max = self.max.or_else(|| Some(max_of(self.rule.limits())));
        let bound = engine.bind(self.rule, self.policy.as_deref(), self.reserves);
        self.tell(engine, &bound, is_max_per_call);
        bound
    }

    /// Keeps the summary of the rule that operators are shown, and gives it to the store, once for
    /// each bound form. `is_max_per_call`: whether the call gives the `max`.
    fn tell(&self, engine: &Engine, bound: &BoundRule, is_max_per_call: bool) {
        if bound.is_noted.load(Relaxed) || bound.mistake.is_some() {
            return;
        }
        bound.is_noted.store(true, Relaxed);
        let policy = bound.policy.as_ref();
        let name = policy.map(|found| &*found.name);
        let mut summary = self.rule.summary(&bound.terms, name, self.kinds.list());
        summary.is_max_per_call = is_max_per_call;
        summary.is_hashed = engine.key_hasher.is_some() && summary.template != Some("");
        if self.is_shadow_per_call && policy.is_none_or(|found| found.policy.terms.shadow.is_none())
        {
            summary.shadow = None;
        }
        if engine.summaries.keep(&summary) {
            engine.store.note_rule(&engine.prefix, &summary);
        }
    }

    /// Applies the values that differ from call to call: hashes the key, and replaces the call's
    /// shadow mode by the policy's. Returns terms that differ from the bound rule's: with the
    /// call's `max`, or the policy's override for the key.
    #[inline(never)]
    fn change(&mut self, engine: &Engine, bound: &BoundRule) -> Option<Terms> {
        let policy = bound.policy.as_ref().map(|found| &found.policy);
        let changed = if let Some(policy) = policy {
            self.shadow = policy.terms.shadow.unwrap_or(self.shadow);
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

    /// The check for this limiter, with values of its own.
    pub(crate) fn kept(&mut self, engine: &Arc<Engine>) -> Part {
        self.with_check(engine, |check| Part::new(engine, check))
    }

    /// [`kept`](Self::kept), under the terms by which `admission` was charged: a new set of
    /// policies may have replaced them.
    pub(crate) fn kept_as_charged(&mut self, engine: &Arc<Engine>, admission: &Decision) -> Part {
        let key = self.key.clone();
        let part = self.kept(engine);
        let replaced = (part.bound.terms_hash != admission.terms_hash)
            .then(|| engine.registry.charged(self.rule, admission.terms_hash))
            .flatten();
        let Some(bound) = replaced else { return part };
        self.key = key;
        self.with_bound(engine, &bound, |check| Part::new(engine, check))
    }

    /// [`kept`](Self::kept), with the permit to ask for if the rule limits calls in flight; `max`
    /// replaces the rule's maximum, if no policy sets it.
    pub(crate) fn kept_with_permit(&mut self, engine: &Arc<Engine>, max: Option<u64>) -> Part {
        let mut key = self.key.clone();
        let mut part = self.kept(engine);
        let bound = &part.bound;
        let is_max_by_policy = |found: &BoundPolicy| found.policy.terms.concurrent.is_some();
        let max = max.filter(|_| !bound.policy.as_ref().is_some_and(is_max_by_policy));
        let permit = bound.permit_head.as_ref().map(|head| {
            if let Some(hasher) = &engine.key_hasher {
                hasher.hide(head, &mut key);
            }
            Arc::new(PermitCheck {
                bound: Arc::clone(bound),
                key: key.behind(head).into(),
                max: max.or(bound.terms.concurrent).unwrap_or_default(),
            })
        });
        part.permit = permit;
        part
    }
}

/// The `max` that a call may replace.
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

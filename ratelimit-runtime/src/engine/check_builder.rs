//! [`CheckBuilder`]: collects the values of a call, and makes a [`Check`] of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::asked::Asked;
use super::check::Check;
use super::parts::Engine;
use crate::error::RateLimitError;
use crate::key::{self, Key, KeyBuf, KeyPart};
use crate::rule::{self, Algorithm, Limit, Rule};

/// A check in the making: what one call says to a rule. It is small, because it moves from hand to hand.
pub struct CheckBuilder {
    rule: &'static Rule,
    call: Call,
    /// The limiter to ask, where the attribute names one.
    engine: Option<Arc<Engine>>,
    /// The rendered key, without what the stored one begins with.
    key: KeyBuf,
}

/// What one call says other than its rule.
#[derive(Debug, Clone, Copy, Default)]
struct Call {
    max: Option<u64>,
    cost: Option<u64>,
    shadow: Option<bool>,
    reservation: bool,
}

impl CheckBuilder {
    #[inline]
    pub(crate) fn of(rule: &'static Rule, engine: Option<Arc<Engine>>) -> Self {
        Self { rule, call: Call::default(), engine, key: KeyBuf::new() }
    }

    /// Another `max` for the first limit.
    pub fn max(&mut self, max: u64) {
        self.call.max = Some(max);
    }

    /// What this call weighs.
    pub fn cost(&mut self, cost: u64) {
        self.call.cost = Some(cost);
    }

    /// Decide and record, never refuse.
    pub fn shadow(&mut self, on: bool) {
        self.call.shadow = Some(on);
    }

    /// Only reserve: what the function returns decides whether the call counts.
    pub fn reserve(&mut self) {
        self.call.reservation = true;
    }

    /// Text of the template.
    pub fn text(&mut self, literal: &'static str) {
        key::push_text(&mut self.key, literal);
    }

    /// The value of a placeholder.
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        key::push_part(&mut self.key, value);
    }

    /// The limiter to ask, where the attribute names one.
    #[inline]
    pub(crate) fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.as_ref()
    }

    /// Makes the check for this engine.
    #[inline]
    pub(crate) fn with_check<T>(&self, engine: &Engine, work: impl FnOnce(Check<'_>) -> T) -> T {
        with_check(self.rule, self.call, engine, &self.key, work)
    }

    /// The check, with the engine to ask: the one that the attribute names, or else this.
    pub(crate) fn finish(mut self, current: impl FnOnce() -> Arc<Engine>) -> Asked {
        let engine = self.engine.take().unwrap_or_else(current);
        with_check(self.rule, self.call, &engine, &self.key, |check| Asked::new(Arc::clone(&engine), check))
    }
}

/// Makes the check of a key by hand.
pub(crate) fn with_check_by_hand<T>(rule: &Rule, engine: &Engine, key: &Key, work: impl FnOnce(Check<'_>) -> T) -> T {
    with_check(rule, Call::default(), engine, key.as_bytes(), work)
}

/// Makes a check, for as long as `work` takes: the only way to one, and the only place where keys are hashed.
#[allow(clippy::inline_always, reason = "a check has many fields, and those that nobody reads are then never written")]
#[inline(always)]
fn with_check<T>(rule: &Rule, call: Call, engine: &Engine, rendered: &[u8], work: impl FnOnce(Check<'_>) -> T) -> T {
    let resolved = rule.resolved();
    let mut check = Check {
        name: resolved.name,
        algorithm: rule.algorithm(),
        limits: rule.limits(),
        cost: call.cost.unwrap_or(rule.cost()),
        block: rule.block(),
        wait: rule.wait(),
        timeout: rule.timeout().unwrap_or(engine.timeout),
        on_unavailable: rule.on_unavailable().unwrap_or(engine.on_unavailable),
        reservation: call.reservation,
        shadow: call.shadow.unwrap_or(rule.is_shadow()),
        key: &[],
        rule_len: 0,
        broken: None,
    };
    let mut head = &*resolved.head;
    let changes;
    if rule.policy().is_some() || call.max.is_some() || !rule.known_by().contains(engine.id) {
        changes = Changes::new(rule, call, engine);
        check.algorithm = changes.algorithm;
        check.limits = &changes.limits;
        check.block = changes.block;
        check.broken = changes.broken.as_ref();
        head = changes.head.as_deref().unwrap_or(head);
    }
    let mut key = KeyBuf::new();
    if !engine.prefix.is_empty() {
        key.extend_from_slice(engine.prefix.as_bytes());
    }
    key.extend_from_slice(head.as_bytes());
    check.rule_len = key.len();
    key.extend_from_slice(rendered);
    if let Some(hasher) = &engine.key_hasher {
        hasher.hide(&mut key, check.rule_len);
    }
    check.key = &key;
    work(check)
}

/// What differs from the rule: by its policy, by the call, or because the limiter has something against it when it first
/// meets it.
struct Changes {
    algorithm: Algorithm,
    limits: SmallVec<[Limit; 2]>,
    block: Duration,
    head: Option<String>,
    broken: Option<RateLimitError>,
}

impl Changes {
    #[cold]
    fn new(rule: &Rule, call: Call, engine: &Engine) -> Self {
        let mut changes = Self {
            algorithm: rule.algorithm(),
            limits: SmallVec::from_slice(rule.limits()),
            block: rule.block(),
            head: None,
            broken: None,
        };
        if let Some(name) = rule.policy() {
            changes.adopt(rule, name, engine);
        } else if !rule.known_by().contains(engine.id) {
            match engine.registry.meet(rule) {
                Ok(()) => rule.known_by().insert(engine.id),
                Err(error) => changes.broken = Some(error),
            }
        }
        if let (Some(max), Some(first)) = (call.max, changes.limits.first_mut()) {
            *first = first.with_max(max);
        }
        changes
    }

    /// Takes from the policy what the rule leaves to it.
    fn adopt(&mut self, rule: &Rule, name: &str, engine: &Engine) {
        let policies = engine.policies.load();
        if let Some(policy) = policies.get(name) {
            self.algorithm = policy.algorithm;
            self.limits.clone_from(&policy.limits);
            self.block = policy.block;
        } else {
            self.broken = Some(RateLimitError::misconfigured(format!(
                "the limiter has no policy `{name}`: give it one with `RateLimiter::builder().policy(\"{name}\", …)`"
            )));
        }
        let mut head = String::new();
        rule::push_head(&mut head, self.algorithm, &self.limits, &rule.resolved().escaped);
        self.head = Some(head);
    }
}

impl fmt::Debug for CheckBuilder {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckBuilder")
            .field("rule", &self.rule.name())
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

//! [`CheckBuilder`]: makes a [`Check`] from a rule and the values of a call.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::asked::Asked;
use super::check::Check;
use super::parts::Engine;
use crate::error::RateLimitError;
use crate::key::{self, Key, KeyBuf, KeyPart};
use crate::rule::{self, Rule};

/// A check in the making, for the engine that will be asked. `finish` is the only way to the check, and
/// the only place where keys are hashed.
pub struct CheckBuilder {
    engine: Arc<Engine>,
    check: Check,
}

impl CheckBuilder {
    pub(crate) fn for_engine(rule: &Rule, engine: Arc<Engine>) -> Self {
        let mut check = Check {
            name: rule.resolved().name,
            algorithm: rule.algorithm(),
            limits: SmallVec::from_slice(rule.limits()),
            cost: rule.cost(),
            block: rule.block(),
            wait: rule.wait(),
            timeout: rule.timeout().unwrap_or(engine.timeout),
            on_unavailable: rule.on_unavailable().unwrap_or(engine.on_unavailable),
            reservation: false,
            shadow: rule.is_shadow(),
            key: KeyBuf::new(),
            rule_len: 0,
            broken: None,
        };
        check.key.extend_from_slice(engine.prefix.as_bytes());
        if let Some(policy) = rule.policy() {
            adopt(&mut check, rule, policy, &engine);
        } else {
            check.key.extend_from_slice(rule.resolved().head.as_bytes());
            if !rule.known_by().contains(engine.id) {
                match engine.registry.meet(rule) {
                    Ok(()) => rule.known_by().insert(engine.id),
                    Err(error) => check.broken = Some(error),
                }
            }
        }
        check.rule_len = check.key.len();
        Self { engine, check }
    }

    /// Another `max` for the first limit.
    pub fn max(&mut self, max: u64) {
        if let Some(first) = self.check.limits.first_mut() {
            *first = first.with_max(max);
        }
    }

    /// What this call weighs.
    pub fn cost(&mut self, cost: u64) {
        self.check.cost = cost;
    }

    /// Decide and record, never refuse.
    pub fn shadow(&mut self, on: bool) {
        self.check.shadow = on;
    }

    /// Only reserve: what the function returns decides whether the call counts.
    pub fn reserve(&mut self) {
        self.check.reservation = true;
    }

    /// Text of the template.
    pub fn text(&mut self, literal: &'static str) {
        key::push_text(&mut self.check.key, literal);
    }

    /// The value of a placeholder.
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        key::push_part(&mut self.check.key, value);
    }

    /// The check of a key that has been rendered already.
    pub(crate) fn with_key(mut self, key: &Key) -> Asked {
        self.check.key.extend_from_slice(key.as_bytes());
        self.finish()
    }

    /// The check, and the engine to ask.
    pub(crate) fn finish(mut self) -> Asked {
        if let Some(hasher) = &self.engine.key_hasher {
            hasher.hide(&mut self.check.key, self.check.rule_len);
        }
        Asked { engine: self.engine, check: self.check }
    }
}

/// Takes from the policy what the rule leaves to it.
fn adopt(check: &mut Check, rule: &Rule, name: &str, engine: &Engine) {
    let policies = engine.policies.load();
    if let Some(policy) = policies.get(name) {
        check.algorithm = policy.algorithm;
        check.limits.clone_from(&policy.limits);
        check.block = policy.block;
    } else {
        check.broken = Some(RateLimitError::misconfigured(format!(
            "the limiter has no policy `{name}`: give it one with `RateLimiter::builder().policy(\"{name}\", …)`"
        )));
    }
    let mut head = String::new();
    rule::push_head(&mut head, check.algorithm, &check.limits, &rule.resolved().escaped);
    check.key.extend_from_slice(head.as_bytes());
}

impl fmt::Debug for CheckBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.check.fmt(f)
    }
}

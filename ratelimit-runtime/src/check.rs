//! [`Check`]: one question, with all that is needed to ask it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::error::RateLimitError;
use crate::key::{self, KeyBuf};
use crate::limit::Limit;
use crate::limiter::Inner;
use crate::rule::{Algorithm, OnUnavailable, Rule};
use crate::store::Request;
use crate::{Key, KeyPart, RateLimiter, name};

/// Beyond this, times could not be added exactly on Redis. 2⁵² µs are 142 years.
const MAX_HORIZON_US: u64 = 1 << 52;

/// One question to a limiter. It owns its key, so that nothing of the caller's is held across an `.await`.
#[derive(Clone)]
pub struct Check {
    pub(crate) limiter: RateLimiter,
    /// The name of the rule.
    pub(crate) name: &'static str,
    algorithm: Algorithm,
    pub(crate) limits: SmallVec<[Limit; 2]>,
    cost: u64,
    block: Duration,
    /// How long to wait for a slot.
    pub(crate) patience: Duration,
    pub(crate) deadline: Duration,
    pub(crate) on_unavailable: OnUnavailable,
    held: bool,
    pub(crate) shadow: bool,
    unit_log: bool,
    key: KeyBuf,
    /// How much of the key all keys of the rule share.
    rule_len: usize,
    /// What is wrong with the question itself, to be said when it is asked.
    broken: Option<RateLimitError>,
}

impl Check {
    /// A check by the limiter that is found here and now.
    #[must_use]
    pub fn new(rule: &Rule) -> Self {
        Self::on(rule, crate::context::current())
    }

    /// A check by this limiter.
    #[must_use]
    pub fn on(rule: &Rule, limiter: RateLimiter) -> Self {
        let inner = Arc::clone(limiter.inner());
        let mut check = Self {
            name: rule.name(),
            algorithm: rule.kept_as(),
            limits: SmallVec::from_slice(rule.limits()),
            cost: rule.cost(),
            block: rule.ban(),
            patience: rule.patience(),
            deadline: rule.deadline().unwrap_or(inner.timeout),
            on_unavailable: rule.outage_policy().unwrap_or(inner.on_unavailable),
            held: false,
            shadow: rule.is_shadow(),
            unit_log: rule.is_unit_log(),
            key: KeyBuf::new(),
            rule_len: 0,
            broken: None,
            limiter,
        };
        check.key.extend_from_slice(inner.prefix.as_bytes());
        match rule.policy_name() {
            None => check.key.extend_from_slice(rule.resolved().head.as_bytes()),
            Some(policy) => check.adopt(rule, policy, &inner),
        }
        check.rule_len = check.key.len();
        if rule.policy_name().is_none() && !rule.is_vetted_by(inner.id) {
            match inner.registry.vet(rule) {
                Ok(()) => rule.vetted(inner.id),
                Err(error) => check.broken = Some(error),
            }
        }
        check
    }

    fn adopt(&mut self, rule: &Rule, name: &str, inner: &Inner) {
        let policies = inner.policies.load();
        if let Some(policy) = policies.get(name) {
            self.algorithm = policy.algorithm;
            self.limits.clone_from(&policy.limits);
            self.block = policy.block;
            self.unit_log = false;
        } else {
            self.broken = Some(RateLimitError::misconfigured(format!(
                "the limiter has no policy `{name}`: give it one with `RateLimiter::builder().policy(\"{name}\", …)`"
            )));
        }
        let mut head = String::new();
        name::push_head(&mut head, self.algorithm, &self.limits, &rule.resolved().escaped);
        self.key.extend_from_slice(head.as_bytes());
    }

    /// Another `max` for the first limit.
    pub fn max(&mut self, max: u64) {
        if let Some(first) = self.limits.first_mut() {
            *first = first.with_max(max);
        }
    }

    /// What this call weighs.
    pub fn cost(&mut self, cost: u64) {
        self.cost = cost;
    }

    /// Decide and record, never refuse.
    pub fn shadow(&mut self, on: bool) {
        self.shadow = on;
    }

    /// Only reserve: what the function returns decides whether the call counts.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Text of the template.
    pub fn text(&mut self, literal: &'static str) {
        key::push_text(&mut self.key, literal);
    }

    /// The value of a placeholder.
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        key::push_part(&mut self.key, value);
    }

    /// A key that has been rendered already.
    pub(crate) fn keyed(mut self, key: &Key) -> Self {
        self.key.extend_from_slice(key.as_bytes());
        self.finish();
        self
    }

    /// Hides the rendered part of the key, if the limiter does that.
    pub(crate) fn finish(&mut self) {
        if let Some(hasher) = &self.limiter.inner().key_hasher {
            hasher.hide(&mut self.key, self.rule_len);
        }
    }

    /// What is asked of the store.
    ///
    /// # Errors
    ///
    /// What no store has to be asked for: an unknown policy, two meanings of a name, a cost that no window admits.
    pub(crate) fn request(&self) -> Result<Request<'_>, RateLimitError> {
        let limit = self.capacity();
        if self.broken.is_none() && (self.cost > limit || limit == 0) {
            return Err(RateLimitError::CostExceedsLimit { rule: self.name, cost: self.cost, limit });
        }
        if self.limits.iter().any(|limit| self.algorithm.horizon_us(limit) > MAX_HORIZON_US) {
            return Err(RateLimitError::misconfigured(format!(
                "the bucket of `{}` takes more than a century to drain: lower its burst or raise its `max`",
                self.name
            )));
        }
        self.any_request()
    }

    pub(crate) fn any_request(&self) -> Result<Request<'_>, RateLimitError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let request = Request::new(&self.key, self.algorithm, &self.limits)
            .with_cost(self.cost)
            .with_block(if self.shadow { Duration::ZERO } else { self.block })
            .with_unit_log(self.unit_log)
            .with_rule_len(self.rule_len);
        Ok(if self.held { request.reserving() } else { request })
    }

    /// What one call may cost at most.
    pub(crate) fn capacity(&self) -> u64 {
        self.limits.iter().map(|limit| self.algorithm.capacity(limit)).min().unwrap_or(0)
    }

    pub(crate) fn is_reservation(&self) -> bool {
        self.held
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl fmt::Debug for Check {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("rule", &self.name).field("limits", &self.limits).finish_non_exhaustive()
    }
}

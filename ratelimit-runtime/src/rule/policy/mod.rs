//! [`Policy`]: limits that a rule refers to by name, set on the limiter instead of in the code.

pub(super) mod overrides;

use std::collections::HashMap;
use std::time::Duration;

use self::overrides::{Override, Overrides};
use crate::key::Key;
use crate::rule::algorithm::Algorithm;
use crate::rule::block::BlockDuration;
use crate::rule::limit::{Limit, MAX_LIMITS};
use crate::rule::on_unavailable::OnUnavailable;
use crate::rule::terms::Terms;

/// The longest wait for room, and the bounds of a timeout; those of the attribute are equal.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);
const MIN_TIME: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings that operators give to a rule with `policy = "…"`. They can be replaced at run
/// time: see [`RateLimiter::set_policies`](crate::RateLimiter::set_policies).
///
/// Limits, algorithm and block are always the policy's. Shadow mode, `wait`, `prefetch`, the
/// timeout, the answer while the store is unavailable, and the number and lease of calls in flight
/// are the policy's where it sets them, and else the rule's.
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Key, Limit, Override, Policy};
///
/// let export = Policy::new(Limit::per_hour(10))
///     .with_shadow(true)
///     .with_timeout(Duration::from_millis(20))
///     .with_override(&Key::of("acme"), Override::max(100));
/// # let _ = export;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(crate) terms: Terms,
    pub(crate) overrides: Overrides,
    /// The name of the time zone of calendar quotas, as given.
    pub(crate) zone: Option<String>,
}

impl Policy {
    /// A policy with one limit, under the exact sliding window.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self {
            terms: Terms::NONE.and(limit),
            overrides: Overrides::default(),
            zone: None,
        }
    }

    /// Adds a limit on the same key. A call is charged to all limits, or to none. With more than 8
    /// limits the policy is refused when it is set.
    #[must_use]
    pub fn and(mut self, limit: Limit) -> Self {
        self.terms = self.terms.and(limit);
        self
    }

    /// Sets the algorithm that keeps the limits; [`Algorithm::SlidingWindow`] by default.
    #[must_use]
    pub fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        self.terms = self.terms.with_algorithm(algorithm);
        self
    }

    /// Sets how long a key is refused once the limits refuse it, at most [`Limit::MAX_WINDOW`];
    /// zero for not at all. See [`Rule::with_block`](crate::Rule::with_block).
    #[must_use]
    pub fn with_block(mut self, block: Duration) -> Self {
        self.terms.block = BlockDuration::fixed(block);
        self
    }

    /// Sets how long a key is refused once the limits refuse it: for `first`, and with each further
    /// offence for twice as long, up to `longest`. See
    /// [`Rule::with_growing_block`](crate::Rule::with_growing_block).
    ///
    /// # Panics
    ///
    /// Unless `first` is above zero, and `longest` above `first` and at most
    /// [`Limit::MAX_WINDOW`].
    #[must_use]
    pub fn with_growing_block(mut self, first: Duration, longest: Duration) -> Self {
        assert!(
            BlockDuration::is_range(first, longest),
            "a block grows from more than 0 to something longer, at most 366 days"
        );
        self.terms.block = BlockDuration::growing(first, longest);
        self
    }

    /// Sets shadow mode: if `on`, the rule decides and records, but never refuses; if not, it
    /// refuses, also where the attribute has `shadow`. See
    /// [`Rule::with_shadow`](crate::Rule::with_shadow).
    #[must_use]
    pub fn with_shadow(mut self, on: bool) -> Self {
        self.terms.shadow = Some(on);
        self
    }

    /// Lets a refused call wait for room, for at most `wait`, which is at most 1 h: see
    /// [`Rule::with_wait`](crate::Rule::with_wait). Zero refuses at once, also where the attribute
    /// waits.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// Takes units ahead for this long, from 10 ms to 10 s: see
    /// [`Rule::with_prefetch`](crate::Rule::with_prefetch). Zero takes none, also where the
    /// attribute does.
    #[must_use]
    pub fn with_prefetch(mut self, lease: Duration) -> Self {
        self.terms = self.terms.with_prefetch(lease);
        self
    }

    /// Sets how long a check may take, from 1 ms to 1 min.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.terms.timeout = Some(timeout);
        self
    }

    /// Sets the answer while the store cannot answer, in place of the rule's and the limiter's.
    #[must_use]
    pub fn with_on_unavailable(mut self, answer: OnUnavailable) -> Self {
        self.terms.on_unavailable = Some(answer);
        self
    }

    /// Sets how many calls of a key may be in flight, at least 1, for a rule that [limits
    /// them](crate::Rule::with_concurrent); any other rule with this policy is `Misconfigured`.
    #[must_use]
    pub fn with_concurrent(mut self, max: u64) -> Self {
        self.terms.concurrent = Some(max);
        self
    }

    /// Sets how long the permits of a process that dies stay taken, from 5 s to 1 h, for a rule
    /// that [limits calls in flight](crate::Rule::with_concurrent); any other rule with this policy
    /// is `Misconfigured`.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.terms.lease = Some(lease);
        self
    }

    /// The name of the time zone of calendar quotas, as given.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// Sets the time zone of calendar quotas, by its name in the tz database; the rule's by
    /// default.
    #[cfg_attr(not(feature = "calendar"), doc(hidden))]
    #[must_use]
    pub fn with_zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Gives one key other numbers, in place of an earlier override of the key. The key is as calls
    /// render it, also where the limiter [hashes keys](crate::RateLimiterBuilder::hash_keys) before
    /// they are stored. An IP address in it may be written in any form: it stands for its
    /// subscriber and, if the key is an [`ExactIp`](crate::ExactIp), for the address. Addresses of
    /// one /64 whose numbers differ stand for themselves alone, which changes nothing for keys by
    /// subscriber: write the /64.
    #[must_use]
    pub fn with_override(mut self, key: &Key, values: Override) -> Self {
        self.overrides.insert(key.clone(), values);
        self
    }
}

impl Policy {
    /// The limits, in the order in which they were given.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.terms.limits()
    }

    /// The algorithm that keeps the limits.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.terms.algorithm()
    }

    /// The terms in their time zone.
    ///
    /// # Errors
    ///
    /// If no limiter can use the policy, whatever its store: the mistake.
    pub(super) fn check(&self) -> Result<Terms, String> {
        let terms = &self.terms;
        let limits = terms.len;
        if limits > MAX_LIMITS {
            return Err(format!(
                "a policy has at most {MAX_LIMITS} limits, not {limits}"
            ));
        }
        if let Some(mistake) = terms.mistake(self.zone.is_some()) {
            return Err(mistake);
        }
        let wait = terms.wait.filter(|wait| !wait.is_zero());
        let is_within = |time: Option<Duration>, longest| {
            time.is_none_or(|time| (MIN_TIME..=longest).contains(&time))
        };
        let fault = |message: &str| Err(message.to_owned());
        if wait.is_some() && terms.shadow == Some(true) {
            return fault("`wait` is never used: with `shadow` no call is refused, so none waits");
        }
        if !is_within(wait, MAX_WAIT) {
            return fault("this wait is out of bounds: write one from \"1ms\" to \"1h\"");
        }
        if !is_within(terms.timeout, MAX_TIMEOUT) {
            return fault("this timeout is out of bounds: write one from \"1ms\" to \"60s\"");
        }
        if terms.concurrent == Some(0) {
            return fault("`concurrent` is at least 1");
        }
        if !terms.lease.is_none_or(Terms::is_lease) {
            return fault("this lease is out of bounds: write one from \"5s\" to \"1h\"");
        }
        overrides::check(&self.overrides, terms.algorithm(), limits)?;
        terms.in_zone(self.zone.as_deref())
    }
}

/// The policies of a limiter, by name.
pub(crate) type Policies = HashMap<String, Policy>;

/// The policies by name; an error message if one of them cannot be used.
pub(crate) fn checked(
    policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
) -> Result<Policies, String> {
    let mut checked = Policies::new();
    for (name, mut policy) in policies {
        let name = name.into();
        policy.terms = policy
            .check()
            .map_err(|fault| format!("the policy `{name}`: {fault}"))?;
        overrides::add_renderings(&mut policy.overrides);
        if checked.insert(name.clone(), policy).is_some() {
            return Err(format!("the policy `{name}` is defined twice"));
        }
    }
    Ok(checked)
}

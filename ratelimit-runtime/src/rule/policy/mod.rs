//! [`Policy`]: limits that a rule refers to by name, set on the limiter instead of in the code.

pub(super) mod overrides;

use std::collections::HashMap;
use std::time::Duration;

use smallvec::SmallVec;

use self::overrides::{Override, Overrides};
use crate::key::Key;
use crate::rule::algorithm::Algorithm;
use crate::rule::block::BlockDuration;
use crate::rule::calendar::Zone;
use crate::rule::in_flight::CallsInFlight;
use crate::rule::limit::{Limit, MAX_LIMITS};
use crate::rule::on_unavailable::OnUnavailable;
use crate::rule::prefetch;

/// The longest wait for room, and the bounds of a timeout; those of the attribute are equal.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);
const MIN_TIME: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings that operators give to a rule with `policy = "…"`. They can be replaced at run
/// time: see [`RateLimiter::set_policies`](crate::RateLimiter::set_policies).
///
/// Limits, algorithm and block are always the policy's. Shadow mode, waiting, taking ahead, the
/// timeout, the answer while the store is unavailable and the number of calls in flight are the
/// rule's own, unless the policy sets them: then the policy's setting wins.
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
    pub(crate) algorithm: Algorithm,
    pub(crate) limits: SmallVec<[Limit; 2]>,
    pub(crate) block: BlockDuration,
    /// `None`, here and below, leaves the rule's own setting.
    pub(crate) shadow: Option<bool>,
    pub(crate) wait: Option<Duration>,
    pub(crate) prefetch: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_unavailable: Option<OnUnavailable>,
    pub(crate) concurrent: Option<u64>,
    pub(crate) lease: Option<Duration>,
    pub(crate) overrides: Overrides,
    /// The name of the time zone of calendar quotas, as given.
    pub(crate) zone: Option<String>,
}

impl Policy {
    /// A policy with one limit, kept as an exact sliding window.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self::of_limits(SmallVec::from_slice(&[limit]))
    }

    pub(super) fn of_limits(limits: SmallVec<[Limit; 2]>) -> Self {
        Self {
            algorithm: Algorithm::default(),
            limits,
            block: BlockDuration::NONE,
            shadow: None,
            wait: None,
            prefetch: None,
            timeout: None,
            on_unavailable: None,
            concurrent: None,
            lease: None,
            overrides: Overrides::default(),
            zone: None,
        }
    }

    /// Adds a limit on the same key. A call is charged to all limits, or to none.
    #[must_use]
    pub fn and(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Sets the algorithm that keeps the limits.
    #[must_use]
    pub fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Sets how long a key is refused once the limits refuse it.
    #[must_use]
    pub fn with_block(mut self, block: Duration) -> Self {
        self.block = BlockDuration::fixed(block);
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
        self.block = BlockDuration::growing(first, longest);
        self
    }

    /// Shadow mode: if `on`, decides and records, but never refuses; else refuses, also under
    /// `shadow`. A block of the policy is set only by calls that may be refused.
    #[must_use]
    pub fn with_shadow(mut self, on: bool) -> Self {
        self.shadow = Some(on);
        self
    }

    /// Lets a refused call wait for room, for at most this long and 1 h: see
    /// [`Rule::with_wait`](crate::Rule::with_wait). Zero refuses at once, also where the attribute
    /// waits.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Takes units ahead for this long, from 10 ms to 10 s: see
    /// [`Rule::with_prefetch`](crate::Rule::with_prefetch). Zero takes none, also where the
    /// attribute does.
    #[must_use]
    pub fn with_prefetch(mut self, lease: Duration) -> Self {
        self.prefetch = Some(lease);
        self
    }

    /// Sets how long a check may take, from 1 ms to 1 min.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the answer while the store cannot answer.
    #[must_use]
    pub fn with_on_unavailable(mut self, answer: OnUnavailable) -> Self {
        self.on_unavailable = Some(answer);
        self
    }

    /// Sets how many calls of a key may be in flight, at least 1, for a rule that [limits
    /// them](crate::Rule::with_concurrent); any other rule with this policy is `Misconfigured`.
    #[must_use]
    pub fn with_concurrent(mut self, max: u64) -> Self {
        self.concurrent = Some(max);
        self
    }

    /// Sets how long the permits of a process that dies stay taken, from 5 s to 1 h.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
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

    /// Gives one key other numbers, in place of an earlier override. The key is as calls render it,
    /// also where the limiter [hashes keys](crate::RateLimiterBuilder::hash_keys) before they are
    /// stored. An IP address in it may be written in any form: it stands for its subscriber and, if
    /// the key is an [`ExactIp`](crate::ExactIp), for the address. Addresses of one /64 whose
    /// numbers differ stand for themselves alone.
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
        &self.limits
    }

    /// The algorithm that keeps the limits.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The limits of a key with this override.
    pub(crate) fn limits_of(&self, values: &Override) -> SmallVec<[Limit; 2]> {
        let mut limits = self.limits.clone();
        values.apply(&mut limits);
        limits
    }

    /// The policy with its time zone applied to its calendar quotas. It must be
    /// [checked](Self::check).
    fn in_its_zone(mut self) -> Self {
        if let Some(Ok(zone)) = self.zone.as_deref().map(Zone::named) {
            for limit in &mut self.limits {
                *limit = limit.in_zone(zone);
            }
        }
        self
    }

    /// `true` if it takes units ahead, whatever the rule does.
    pub(crate) fn takes_ahead(&self) -> bool {
        self.prefetch.is_some_and(|lease| !lease.is_zero())
    }

    /// `true` if only rules that keep permits of calls in flight can use the policy.
    pub(crate) fn needs_permits(&self) -> bool {
        self.concurrent.is_some() || self.lease.is_some()
    }

    /// `true` if a rule that waits cannot use the policy.
    pub(crate) fn stops_waiting(&self) -> bool {
        self.block != BlockDuration::NONE && self.wait != Some(Duration::ZERO)
    }

    /// The mistake in using it for a rule that takes units ahead for `of_rule`, if there is one.
    pub(crate) fn prefetch_mistake(&self, of_rule: Duration) -> Option<String> {
        let lease = self.prefetch.unwrap_or(of_rule);
        prefetch::mistake(lease, &self.limits, self.block)
    }

    /// `Ok` if a limiter can use the policy, on any store; else the mistake.
    pub(super) fn check(&self) -> Result<(), String> {
        let limits = self.limits.len();
        let wait = self.wait.filter(|wait| !wait.is_zero());
        let by_calendar = self
            .limits
            .iter()
            .find_map(|limit| Some((limit, limit.calendar_unit()?)));
        if limits > MAX_LIMITS {
            return Err(format!(
                "a policy has at most {MAX_LIMITS} limits, not {limits}"
            ));
        }
        if let Some((limit, unit)) = by_calendar
            && self.algorithm != Algorithm::FixedWindow
        {
            return Err(format!(
                "a calendar quota, `{limit}`, is kept by `fixed_window` alone, not by `{}`: set the algorithm `fixed_window`, or \
                 write a length of time, such as `{}/{}`",
                self.algorithm,
                limit.max(),
                unit.span(),
            ));
        }
        let fault = |message: &str| Err(message.to_owned());
        if self.zone.as_deref().map(Zone::named).transpose()?.is_some() && by_calendar.is_none() {
            return fault(
                "`zone` says where a calendar day begins: write a limit such as `500/day`, or leave it out",
            );
        }
        if !self.algorithm.has_burst() && self.limits.iter().any(Limit::has_burst) {
            return Err(self.algorithm.lacks_burst());
        }
        if wait.is_some() && self.block != BlockDuration::NONE {
            return fault("a call either waits or is blocked: leave `wait` out, or `block`");
        }
        if wait.is_some() && self.shadow == Some(true) {
            return fault("`wait` is never used: with `shadow` no call is refused, so none waits");
        }
        if wait.is_some_and(|wait| !(MIN_TIME..=MAX_WAIT).contains(&wait)) {
            return fault("this wait is out of bounds: write one from \"1ms\" to \"1h\"");
        }
        if self
            .timeout
            .is_some_and(|timeout| !(MIN_TIME..=MAX_TIMEOUT).contains(&timeout))
        {
            return fault("this timeout is out of bounds: write one from \"1ms\" to \"60s\"");
        }
        if let Some(mistake) = self.prefetch_mistake(Duration::ZERO) {
            return Err(mistake);
        }
        if self.concurrent == Some(0) {
            return fault("`concurrent` is at least 1");
        }
        if self
            .lease
            .is_some_and(|lease| !CallsInFlight::is_lease(lease))
        {
            return fault("this lease is out of bounds: write one from \"5s\" to \"1h\"");
        }
        overrides::check(&self.overrides, self.algorithm, limits)
    }
}

/// The policies of a limiter, by name.
pub(crate) type Policies = HashMap<String, Policy>;

/// The policies by name; an error message if one of them cannot be used.
pub(crate) fn checked(
    policies: impl IntoIterator<Item = (impl Into<String>, Policy)>,
) -> Result<Policies, String> {
    let mut checked = Policies::new();
    for (name, policy) in policies {
        let name = name.into();
        policy
            .check()
            .map_err(|fault| format!("the policy `{name}`: {fault}"))?;
        let mut policy = policy.in_its_zone();
        overrides::add_renderings(&mut policy.overrides);
        if checked.insert(name.clone(), policy).is_some() {
            return Err(format!("the policy `{name}` is defined twice"));
        }
    }
    Ok(checked)
}

//! [`Policy`]: limits that a rule refers to by name, set up on the limiter instead of in the code.

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

/// The longest wait for a slot, and the bounds of a timeout: those of the attribute.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);
const MIN_TIME: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings that operators give to a rule with `policy = "…"`. They can be replaced at run
/// time: see [`RateLimiter::set_policies`](crate::RateLimiter::set_policies).
///
/// Limits, algorithm and block are always the policy's. Shadow mode, waiting, the timeout, the
/// answer when the store is unavailable and the number of calls in flight are the rule's own,
/// unless the policy sets them: a setting of the policy wins over the attribute.
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
    /// `None`, here and below: the rule's own setting.
    pub(crate) shadow: Option<bool>,
    pub(crate) wait: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_unavailable: Option<OnUnavailable>,
    pub(crate) concurrent: Option<u64>,
    pub(crate) lease: Option<Duration>,
    pub(crate) overrides: Overrides,
    /// The time zone of calendar quotas, as it was given.
    pub(crate) zone: Option<String>,
}

impl Policy {
    /// A policy of one limit, as an exact sliding window.
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
            timeout: None,
            on_unavailable: None,
            concurrent: None,
            lease: None,
            overrides: Overrides::default(),
            zone: None,
        }
    }

    /// One more limit on the same key; a call is charged to all of them, or to none.
    #[must_use]
    pub fn and(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// How the limits are kept.
    #[must_use]
    pub fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Once the limits refuse a key, refuse it for this long.
    #[must_use]
    pub fn with_block(mut self, block: Duration) -> Self {
        self.block = BlockDuration::fixed(block);
        self
    }

    /// Once the limits refuse a key, refuse it for `first`, and with each further offence for twice
    /// as long, up to `longest`: see [`Rule::with_growing_block`](crate::Rule::with_growing_block).
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

    /// Decides and records, but never refuses, if `on`; else refuses, also under `shadow`.
    #[must_use]
    pub fn with_shadow(mut self, on: bool) -> Self {
        self.shadow = Some(on);
        self
    }

    /// Wait for a slot up to this long, at most 1 h, as
    /// [`Rule::with_wait`](crate::Rule::with_wait) says; zero to refuse at once, also where the
    /// attribute waits.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// How long a check may take, from 1 ms to 1 min.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What to do when the store cannot answer.
    #[must_use]
    pub fn with_on_unavailable(mut self, policy: OnUnavailable) -> Self {
        self.on_unavailable = Some(policy);
        self
    }

    /// How many calls of a key may be in flight, at least 1, of a rule that
    /// [limits them](crate::Rule::with_concurrent); any other rule with this policy is
    /// `Misconfigured`.
    #[must_use]
    pub fn with_concurrent(mut self, max: u64) -> Self {
        self.concurrent = Some(max);
        self
    }

    /// For how long the permits of a process that dies stay taken, from 5 s to 1 h.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The time zone of its calendar quotas, as it was given.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The time zone of its calendar quotas, by its name in the tz database; the rule's unless set.
    #[cfg_attr(not(feature = "calendar"), doc(hidden))]
    #[must_use]
    pub fn with_zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }

    /// Gives one key other numbers, in place of an earlier override. The key is as calls render it,
    /// also where the limiter [hashes keys](crate::RateLimiterBuilder::hash_keys) before they are
    /// stored. An IP address in it may be written in any way: it stands for its subscriber, and for
    /// the address where the key is an [`ExactIp`](crate::ExactIp). Addresses of one /64 whose
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

    /// How the limits are kept.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The limits of a key with these numbers.
    pub(crate) fn limits_of(&self, values: &Override) -> SmallVec<[Limit; 2]> {
        let mut limits = self.limits.clone();
        values.apply(&mut limits);
        limits
    }

    /// The same with its time zone in its calendar quotas. It is [checked](Self::check).
    fn in_its_zone(mut self) -> Self {
        if let Some(Ok(zone)) = self.zone.as_deref().map(Zone::named) {
            for limit in &mut self.limits {
                *limit = limit.in_zone(zone);
            }
        }
        self
    }

    /// Whether a rule that waits cannot use it.
    pub(crate) fn stops_waiting(&self) -> bool {
        self.block != BlockDuration::NONE && self.wait != Some(Duration::ZERO)
    }

    /// Whether a limiter can use it, on any store; else the mistake.
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

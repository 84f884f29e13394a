//! [`Rule`]: a named limit, and how its checks behave.

mod algorithm;
mod block;
mod calendar;
mod in_flight;
mod limit;
mod name;
mod on_unavailable;
mod policy;
mod slot;
mod terms;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::algorithm::Algorithm;
pub(crate) use self::block::BlockDuration;
pub use self::calendar::CalendarUnit;
pub(crate) use self::in_flight::CallsInFlight;
pub use self::limit::Limit;
use self::name::from_type_path;
pub(crate) use self::name::{FORMAT, Name, push_head, push_in_flight_head};
pub use self::on_unavailable::OnUnavailable;
pub use self::policy::Policy;
pub use self::policy::overrides::Override;
pub(crate) use self::policy::{Policies, checked};
pub(crate) use self::slot::Names;
use self::slot::Slot;
pub(crate) use self::terms::Terms;
#[cfg(feature = "watch")]
pub(crate) use self::text::Entries;

/// A named limit, or several on one key, and how the checks behave. The attribute makes one per
/// function; by hand it is a static:
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Algorithm, Limit, Rule};
///
/// static LOGIN: Rule = Rule::new("login", Limit::per_minute(5)).and(Limit::per_day(50)).with_block(Duration::from_secs(600));
/// static UPLOAD: Rule =
///     Rule::new("upload", Limit::per_hour(1000).with_burst(50)).with_algorithm(Algorithm::TokenBucket);
/// ```
///
/// Rules of one name share their buckets.
#[derive(Clone)]
pub struct Rule {
    name: RuleName,
    terms: Terms,
    policy: Option<PolicyName>,
    in_flight: Option<CallsInFlight>,
    slot: Slot,
}

#[derive(Clone)]
enum RuleName {
    Given(Cow<'static, str>),
    /// The path of the function, and which of its stacked attributes this is.
    Derived(fn() -> &'static str, u8),
}

/// The policy of a rule.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum PolicyName {
    Fixed(&'static str),
    Made(Arc<str>),
    /// Each call names its policy.
    PerCall,
}

impl Rule {
    /// A rule with a name of its own. Braces, colons and control characters in a name are stored
    /// escaped.
    ///
    /// # Panics
    ///
    /// If the name is empty; in a constant, at compile time.
    #[must_use]
    pub const fn new(name: &'static str, limit: Limit) -> Self {
        assert!(
            !name.is_empty(),
            "the name of a rule has at least one character"
        );
        Self::with_name(RuleName::Given(Cow::Borrowed(name)), limit)
    }

    /// A rule whose name is made at run time.
    ///
    /// # Panics
    ///
    /// If the name is empty.
    #[must_use]
    pub fn named(name: impl Into<String>, limit: Limit) -> Self {
        let name = name.into();
        assert!(
            !name.is_empty(),
            "the name of a rule has at least one character"
        );
        Self::with_name(RuleName::Given(Cow::Owned(name)), limit)
    }

    /// A rule of at most so many calls in flight per key, over all processes that share the store,
    /// and no other limit. Its calls are made by [`RateLimiter::enter`](crate::RateLimiter::enter).
    ///
    /// ```
    /// use ratelimit_runtime::Rule;
    ///
    /// static EXPORT: Rule = Rule::in_flight("export", 5);
    /// ```
    ///
    /// # Panics
    ///
    /// If the name is empty; in a constant, at compile time.
    #[must_use]
    pub const fn in_flight(name: &'static str, max: u64) -> Self {
        assert!(
            !name.is_empty(),
            "the name of a rule has at least one character"
        );
        Self::with_terms(
            RuleName::Given(Cow::Borrowed(name)),
            Terms::without_limits(),
        )
        .with_concurrent(max)
    }

    /// The same for the `nth` attribute of the function whose path `path` gives.
    #[doc(hidden)]
    #[must_use]
    pub const fn in_flight_derived(path: fn() -> &'static str, nth: u8, max: u64) -> Self {
        Self::with_terms(RuleName::Derived(path, nth), Terms::without_limits()).with_concurrent(max)
    }

    /// The rule of the `nth` attribute (counted from 1) of the function whose path `path` gives.
    #[doc(hidden)]
    #[must_use]
    pub const fn derived_nth(path: fn() -> &'static str, nth: u8, limit: Limit) -> Self {
        Self::with_name(RuleName::Derived(path, nth), limit)
    }

    const fn with_name(name: RuleName, limit: Limit) -> Self {
        Self::with_terms(name, Terms::new(limit))
    }

    #[allow(clippy::large_types_passed_by_value, reason = "it moves in")]
    const fn with_terms(name: RuleName, terms: Terms) -> Self {
        Self {
            name,
            terms,
            policy: None,
            in_flight: None,
            slot: Slot::new(),
        }
    }

    /// The same rule with another setting: what was worked out for limiters before is void.
    const fn changed(mut self) -> Self {
        self.slot.void();
        self
    }

    /// The same rule with one more limit on the same key. A call is charged to all of them, or to
    /// none.
    ///
    /// # Panics
    ///
    /// If the rule has 8 limits already; in a constant, at compile time.
    #[must_use]
    pub const fn and(mut self, limit: Limit) -> Self {
        self.terms = self.terms.and(limit);
        self.changed()
    }

    /// How the limits are kept: [`Algorithm::SlidingWindow`] unless set.
    #[must_use]
    pub const fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        self.terms = self.terms.with_algorithm(algorithm);
        self.changed()
    }

    /// Once the limits refuse a key, refuse it for this long. Refusals by the block do not extend
    /// it; `peek` and shadow mode never set it, nor does a call that another rule of its stack or
    /// want of a permit refuses as well.
    #[must_use]
    pub const fn with_block(mut self, block: Duration) -> Self {
        self.terms.block = BlockDuration::fixed(block);
        self.changed()
    }

    /// Once the limits refuse a key, refuse it for `first`, and with each further offence for twice
    /// as long as the last time, up to `longest`.
    ///
    /// An offence is a refusal by the limits of a call that nothing else refuses: neither another
    /// rule of its stack nor want of a permit. Calls that are refused by the block, shadow mode and
    /// a block by hand are none. What the next block doubles is forgotten `longest`
    /// after the last one has ended, and at once by [`unblock`](crate::RateLimiter::unblock) and
    /// [`reset`](crate::RateLimiter::reset).
    ///
    /// # Panics
    ///
    /// Unless `first` is above zero, and `longest` above `first` and at most
    /// [`Limit::MAX_WINDOW`]; in a constant, at compile time.
    #[must_use]
    pub const fn with_growing_block(mut self, first: Duration, longest: Duration) -> Self {
        assert!(
            BlockDuration::is_range(first, longest),
            "a block grows from more than 0 to something longer, at most 366 days"
        );
        self.terms.block = BlockDuration::growing(first, longest);
        self.changed()
    }

    /// Wait for a slot up to this long.
    ///
    /// A call whose [`retry_after`](crate::Decision::retry_after) is longer is refused at once; an
    /// open estimate of `actual_cost` counts as spent. A call does not wait for a store that gives
    /// no answer: it is answered as [`on_unavailable`](Self::with_on_unavailable) says, under
    /// `Deny` by [`Unavailable`](crate::RateLimitError::Unavailable).
    ///
    /// Callers of one limiter take turns, first come, first served, in a queue for each key that
    /// refuses. A queue has room for 1,000 callers, and a limiter for 50,000; the first 16 of a key
    /// find room in any case. A caller that finds none, or whose time is over before its turn, is
    /// refused without asking the store. It is told the wait that is known, or else 50 ms, and
    /// never less than until the first in the queue asks again.
    #[must_use]
    pub const fn with_wait(mut self, wait: Duration) -> Self {
        self.terms.wait = if wait.as_micros() > Limit::MAX_WINDOW.as_micros() {
            Limit::MAX_WINDOW
        } else {
            wait
        };
        self.changed()
    }

    /// Takes limits, algorithm and block from the limiter's policy of this name at every check, and
    /// every other setting that the policy has.
    #[must_use]
    pub const fn with_policy(self, policy: &'static str) -> Self {
        self.with_policy_name(PolicyName::Fixed(policy))
    }

    /// The same rule under another policy, whose name is made at run time: that of a tenant's plan.
    #[must_use]
    pub fn with_policy_named(&self, policy: impl Into<String>) -> Self {
        let mut rule = self.clone();
        rule.policy = Some(PolicyName::Made(Arc::from(policy.into())));
        rule.changed()
    }

    /// Takes the name of the policy from each call.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_policy_per_call(self) -> Self {
        self.with_policy_name(PolicyName::PerCall)
    }

    const fn with_policy_name(mut self, name: PolicyName) -> Self {
        // A constant function drops nothing. The forgotten policy owns memory only if its name was
        // made at run time, and no constant is made of such a rule.
        std::mem::forget(self.policy.replace(name));
        self.changed()
    }

    /// Admits at most so many calls at a time per key, over all processes that share the store,
    /// beside the other limits. Its calls are made by
    /// [`RateLimiter::enter`](crate::RateLimiter::enter).
    #[must_use]
    pub const fn with_concurrent(mut self, max: u64) -> Self {
        let lease = match self.in_flight {
            Some(limit) => limit.lease,
            None => CallsInFlight::DEFAULT_LEASE,
        };
        self.in_flight = Some(CallsInFlight::new(max).with_lease(lease));
        self.changed()
    }

    /// For how long the permits of calls in flight stay taken when their process dies; 30 seconds
    /// unless set. Without effect on a rule that does not limit calls in flight.
    ///
    /// # Panics
    ///
    /// If it is shorter than 5 seconds or longer than an hour; in a constant, at compile time.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        if let Some(limit) = self.in_flight {
            self.in_flight = Some(limit.with_lease(lease));
        }
        self.changed()
    }

    /// How long a check of this rule may take, instead of the limiter's timeout.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.terms.timeout = Some(timeout);
        self.changed()
    }

    /// What to do when the store cannot answer, instead of the limiter's setting.
    #[must_use]
    pub const fn with_on_unavailable(mut self, policy: OnUnavailable) -> Self {
        self.terms.on_unavailable = Some(policy);
        self.changed()
    }

    /// The time zone of its calendar quotas, by its name in the tz database; UTC unless set. A zone
    /// that the database lacks makes each call `Misconfigured`, and so does a zone without calendar
    /// quotas: [`Limit::per_day`] is any 24 hours, in every zone.
    #[cfg_attr(not(feature = "calendar"), doc(hidden))]
    #[must_use]
    pub const fn with_zone(mut self, zone: &'static str) -> Self {
        self.terms.zone = Some(zone);
        self.changed()
    }

    /// Decides and records, but never refuses, if `on`.
    #[must_use]
    pub const fn with_shadow(mut self, on: bool) -> Self {
        self.terms.shadow = on;
        self
    }

    /// The same rule with another `max` for its first limit: buckets are kept, and every admission
    /// counts against the `max` it was asked with.
    #[must_use]
    pub fn with_max(&self, max: u64) -> Self {
        let mut rule = self.clone();
        rule.terms = rule.terms.with_max(max);
        rule
    }

    /// The same rule for a call of this cost; 1 unless set. A cost of 0 is admitted as long as the
    /// limit is not exceeded, and charges nothing.
    #[must_use]
    pub fn with_cost(&self, cost: u64) -> Self {
        let mut rule = self.clone();
        rule.terms.cost = cost;
        rule
    }

    /// The name as decisions show it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.names().name.as_str()
    }

    /// The limits, in the order in which they were given. A policy may put others in their place.
    #[must_use]
    #[inline]
    pub fn limits(&self) -> &[Limit] {
        self.terms.limits()
    }

    /// How the limits are kept.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.terms.algorithm()
    }

    /// The cost of a call.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.terms.cost
    }

    /// The name of the policy that replaces limits, algorithm and block; `None` also where each
    /// call names its own.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        match self.policy.as_ref()? {
            PolicyName::Fixed(name) => Some(name),
            PolicyName::Made(name) => Some(name),
            PolicyName::PerCall => None,
        }
    }

    /// The limits and settings that hold for every call alike.
    #[inline]
    pub(crate) const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// How many calls may be in flight, if that is limited.
    #[inline]
    pub(crate) const fn in_flight_limit(&self) -> Option<CallsInFlight> {
        self.in_flight
    }

    /// Whether its limits are those of a policy.
    #[inline]
    pub(crate) const fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// How many calls of a key may be in flight at a time; `None` for any number.
    #[must_use]
    pub const fn concurrent(&self) -> Option<u64> {
        match self.in_flight {
            Some(limit) => Some(limit.max),
            None => None,
        }
    }

    /// What a limiter keeps of the rule while it is as it is now.
    #[inline]
    pub(crate) fn kept<T: Send + Sync + 'static>(&self) -> Option<&Arc<T>> {
        self.slot.get()
    }

    /// Lets a limiter keep something of the rule, unless another one has.
    pub(crate) fn keep<T: Send + Sync + 'static>(&self, kept: Arc<T>) {
        self.slot.set(kept);
    }

    /// The name in full, as keys hold it, and as decisions show it.
    #[inline]
    pub(crate) fn names(&self) -> &Names {
        self.slot.names(|| match &self.name {
            RuleName::Given(name) => Cow::Borrowed(&**name),
            RuleName::Derived(path, nth) => Cow::Owned(from_type_path(path(), *nth)),
        })
    }

    /// The address of a rule whose name is derived from a path: there is one per function, and no
    /// two are meant to share the name.
    pub(crate) fn site(&self) -> Option<usize> {
        matches!(self.name, RuleName::Derived(..)).then(|| std::ptr::from_ref(self).addr())
    }

    /// Whether a limiter binds both alike: they differ in what a call may change, the cost and the
    /// first `max`, at most.
    pub(crate) fn binds_as(&self, terms: &Terms, in_flight: Option<CallsInFlight>) -> bool {
        self.in_flight == in_flight && self.terms.binds_as(terms)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.limits();
        f.debug_struct("Rule")
            .field("name", &self.names().full)
            .field("limits", &limits)
            .finish_non_exhaustive()
    }
}

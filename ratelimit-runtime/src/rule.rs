//! [`Rule`]: a named limit, and how its checks behave.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use once_cell::sync::OnceCell;

use crate::limit::{Limit, MAX_WINDOW};
use crate::name;

/// How a limit is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// A log of every admission: exact.
    #[default]
    SlidingWindow,
    /// Two counters, the last window's weighted: O(1) memory; up to `2·max − 1` in an interval of one window.
    SlidingCounter,
    /// One counter per window, begun by the first call: up to `2·max` in an interval of one window.
    FixedWindow,
    /// A bucket of `burst` tokens, refilled at `max` per window: up to `burst + max − 1` in one window.
    TokenBucket,
    /// The generic cell rate algorithm: `max` per window evenly, `burst` at once; up to `burst + max − 1`.
    LeakyBucket,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::SlidingWindow, Self::SlidingCounter, Self::FixedWindow, Self::TokenBucket, Self::LeakyBucket];

    /// The name that attributes and configurations write.
    const fn name(self) -> &'static str {
        match self {
            Self::SlidingWindow => "sliding_window",
            Self::SlidingCounter => "sliding_counter",
            Self::FixedWindow => "fixed_window",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
        }
    }

    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::SlidingWindow => "sw",
            Self::SlidingCounter => "sc",
            Self::FixedWindow => "fw",
            Self::TokenBucket => "tb",
            Self::LeakyBucket => "lb",
        }
    }

    /// What one call may cost at most under `limit`.
    pub(crate) const fn capacity(self, limit: &Limit) -> u64 {
        match self {
            Self::TokenBucket | Self::LeakyBucket => limit.capacity(),
            _ => limit.max(),
        }
    }

    /// How long anything written under `limit` may live, in microseconds.
    pub(crate) fn horizon_us(self, limit: &Limit) -> u64 {
        match self {
            Self::SlidingWindow | Self::FixedWindow => limit.window_us(),
            Self::SlidingCounter => 2 * limit.window_us(),
            Self::TokenBucket | Self::LeakyBucket => {
                let full = u128::from(limit.capacity()) * u128::from(limit.window_us());
                u64::try_from(full.div_ceil(u128::from(limit.max().max(1)))).unwrap_or(u64::MAX)
            }
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What to do when the store cannot answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnUnavailable {
    /// Let the call through, unchecked; the decision says `degraded`.
    #[default]
    Allow,
    /// Refuse with [`RateLimitError::Unavailable`](crate::RateLimitError::Unavailable).
    Deny,
    /// Go on limiting in the memory of this process, by the same limits; the decision says `degraded`. Every process
    /// then has a budget of its own, which begins empty. What to take for everything that an attacker touches.
    Local,
}

/// How many limits a rule may have.
pub const MAX_LIMITS: usize = 8;

/// Logs of limits up to this are kept in the form that is best for short ones.
const SHORT_LOG: u64 = 128;

/// A named limit, or several on one key, and how the checks behave. The attribute makes one per function; by hand it
/// is a static:
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Algorithm, Limit, Rule};
///
/// static LOGIN: Rule = Rule::new("login", Limit::per_minute(5)).and(Limit::per_day(50)).block(Duration::from_secs(600));
/// static UPLOAD: Rule =
///     Rule::new("upload", Limit::per_hour(1000).with_burst(50)).algorithm(Algorithm::TokenBucket).weighted();
/// ```
///
/// Rules of one name share their buckets.
#[derive(Debug)]
pub struct Rule {
    name: RuleName,
    algorithm: Algorithm,
    limits: [Limit; MAX_LIMITS],
    len: usize,
    cost: u64,
    unit_log: bool,
    policy: Option<&'static str>,
    block: Duration,
    wait: Duration,
    timeout: Option<Duration>,
    on_unavailable: Option<OnUnavailable>,
    shadow: bool,
    resolved: OnceCell<Resolved>,
    vetted_by: AtomicU64,
}

#[derive(Debug, Clone)]
enum RuleName {
    Given(Cow<'static, str>),
    /// The path of the function, and which of its stacked attributes this is.
    Derived(fn() -> &'static str, u8),
}

/// What is worked out once per rule.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// The name as decisions and metrics show it.
    pub(crate) label: &'static str,
    /// The name as keys hold it.
    pub(crate) escaped: Box<str>,
    /// What every stored key of the rule starts with, after the prefix.
    pub(crate) head: Box<str>,
}

impl Rule {
    /// A rule with a name of its own. Braces, colons and control characters in a name are stored escaped.
    #[must_use]
    pub const fn new(name: &'static str, limit: Limit) -> Self {
        Self::with_name(RuleName::Given(Cow::Borrowed(name)), limit)
    }

    /// A rule whose name is made at run time.
    #[must_use]
    pub fn named(name: impl Into<String>, limit: Limit) -> Self {
        Self::with_name(RuleName::Given(Cow::Owned(name.into())), limit)
    }

    /// The rule of the `nth` attribute (counted from 1) of the function whose path `path` gives.
    #[doc(hidden)]
    #[must_use]
    pub const fn derived_nth(path: fn() -> &'static str, nth: u8, limit: Limit) -> Self {
        Self::with_name(RuleName::Derived(path, nth), limit)
    }

    /// [`derived_nth`](Self::derived_nth) for a single attribute.
    #[doc(hidden)]
    #[must_use]
    pub const fn derived(path: fn() -> &'static str, limit: Limit) -> Self {
        Self::derived_nth(path, 1, limit)
    }

    const fn with_name(name: RuleName, limit: Limit) -> Self {
        Self {
            name,
            algorithm: Algorithm::SlidingWindow,
            limits: [limit; MAX_LIMITS],
            len: 1,
            cost: 1,
            unit_log: limit.max() <= SHORT_LOG,
            policy: None,
            block: Duration::ZERO,
            wait: Duration::ZERO,
            timeout: None,
            on_unavailable: None,
            shadow: false,
            resolved: OnceCell::new(),
            vetted_by: AtomicU64::new(0),
        }
    }

    /// The same rule with one more limit on the same key. A call is charged to all of them, or to none.
    ///
    /// # Panics
    ///
    /// If the rule has [`MAX_LIMITS`] already; in a constant, at compile time.
    #[must_use]
    pub const fn and(mut self, limit: Limit) -> Self {
        assert!(self.len < MAX_LIMITS, "a rule has at most 8 limits");
        #[allow(clippy::indexing_slicing, reason = "checked above; `get_mut` is not const")]
        {
            self.limits[self.len] = limit;
        }
        self.len += 1;
        self.unit_log = self.unit_log && limit.max() <= SHORT_LOG;
        self
    }

    /// How the limits are kept: [`Algorithm::SlidingWindow`] unless set.
    #[must_use]
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Says that calls weigh more or less than each other, or that `max` differs between calls: Redis then keeps the
    /// log of a sliding window in the form for long ones. An attribute with `cost`, `count` or a `max` that is not a
    /// literal is such a rule, and one made by hand for its buckets has to say so too.
    #[must_use]
    pub const fn weighted(mut self) -> Self {
        self.unit_log = false;
        self
    }

    /// Once the limits refuse a key, refuse it for this long. Refusals during the ban do not extend it; `peek` and
    /// shadow mode never set it.
    #[must_use]
    pub const fn block(mut self, block: Duration) -> Self {
        self.block = block;
        self
    }

    /// Wait for a slot up to this long instead of refusing at once. Callers of one process wait in line.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = if wait.as_micros() > MAX_WINDOW.as_micros() { MAX_WINDOW } else { wait };
        self
    }

    /// Takes limits, algorithm and ban from the limiter's policy of this name, whenever a check is made.
    #[must_use]
    pub const fn policy(mut self, policy: &'static str) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The deadline of this rule's checks, instead of the limiter's.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What to do when the store cannot answer, instead of the limiter's setting.
    #[must_use]
    pub const fn on_unavailable(mut self, policy: OnUnavailable) -> Self {
        self.on_unavailable = Some(policy);
        self
    }

    /// Decide and record, never refuse.
    #[must_use]
    pub const fn shadow(mut self, on: bool) -> Self {
        self.shadow = on;
        self
    }

    /// The same rule with another `max` for its first limit: buckets are kept, and every admission counts against the
    /// `max` it was asked with.
    #[must_use]
    pub fn with_max(&self, max: u64) -> Self {
        let mut rule = self.clone();
        if let Some(first) = rule.limits.first_mut() {
            *first = first.with_max(max);
        }
        rule
    }

    /// The same rule for a call that weighs this much; 1 unless said. A cost of 0 is admitted as long as the limit is
    /// not exceeded, and charges nothing.
    #[must_use]
    pub fn with_cost(&self, cost: u64) -> Self {
        let mut rule = self.clone();
        rule.cost = cost;
        rule
    }

    /// The name as decisions show it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.resolved().label
    }

    /// The limits, in the order in which they were given. A policy may put others in their place.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.limits.get(..self.len).unwrap_or_default()
    }

    pub(crate) const fn kept_as(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) const fn is_unit_log(&self) -> bool {
        self.unit_log
    }

    pub(crate) const fn policy_name(&self) -> Option<&'static str> {
        self.policy
    }

    pub(crate) const fn ban(&self) -> Duration {
        self.block
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.wait
    }

    pub(crate) const fn deadline(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) const fn outage_policy(&self) -> Option<OnUnavailable> {
        self.on_unavailable
    }

    pub(crate) const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// The name in full; the label of a decision may be shortened to `(other)`.
    pub(crate) fn full_name(&self) -> Cow<'_, str> {
        match &self.name {
            RuleName::Given(name) => Cow::Borrowed(name),
            RuleName::Derived(path, nth) => Cow::Owned(name::from_type_path(path(), *nth)),
        }
    }

    /// Whether the name was derived from a path, so that no two rules are meant to share it.
    pub(crate) const fn is_derived(&self) -> bool {
        matches!(self.name, RuleName::Derived(..))
    }

    /// Whether the limiter with this id has seen the rule before.
    pub(crate) fn is_vetted_by(&self, limiter: u64) -> bool {
        self.vetted_by.load(Ordering::Relaxed) == limiter
    }

    pub(crate) fn vetted(&self, limiter: u64) {
        self.vetted_by.store(limiter, Ordering::Relaxed);
    }

    pub(crate) fn resolved(&self) -> &Resolved {
        self.resolved.get_or_init(|| {
            let name = self.full_name();
            let escaped: Box<str> = name::escape(&name).into();
            let mut head = String::with_capacity(escaped.len() + 24);
            name::push_head(&mut head, self.algorithm, self.limits(), &escaped);
            Resolved { label: name::intern(&name), escaped, head: head.into_boxed_str() }
        })
    }
}

impl Clone for Rule {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            resolved: self.resolved.clone(),
            vetted_by: AtomicU64::new(self.vetted_by.load(Ordering::Relaxed)),
            ..*self
        }
    }
}

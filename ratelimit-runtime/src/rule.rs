//! [`Rule`] and [`Limit`]: what is limited, and how much.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use once_cell::sync::OnceCell;

use crate::name;

/// The longest window: 366 days.
pub const MAX_WINDOW: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The largest count a limit or a cost can hold: 2⁵² − 1, so that Redis scripts, which count in doubles, add two of
/// them exactly. Larger numbers mean this one.
pub const MAX_COUNT: u64 = (1 << 52) - 1;

/// At most `max` in any `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    max: u64,
    window_us: u64,
    /// 0: the same as `max`.
    burst: u64,
}

impl Limit {
    /// At most `max` in any `window`. A `max` of 0 admits nothing; one above [`MAX_COUNT`] means [`MAX_COUNT`].
    ///
    /// # Panics
    ///
    /// If `window` is shorter than a millisecond or longer than [`MAX_WINDOW`]; in a constant, at compile time.
    #[must_use]
    pub const fn new(max: u64, window: Duration) -> Self {
        assert!(window.as_millis() > 0, "the window of a limit is at least one millisecond");
        assert!(window.as_micros() <= MAX_WINDOW.as_micros(), "the window of a limit is at most 366 days");
        #[allow(clippy::cast_possible_truncation, reason = "at most 366 days")]
        let window_us = window.as_micros() as u64;
        Self { max: 0, window_us, burst: 0 }.with_max(max)
    }

    /// At most `max` in any second.
    #[must_use]
    pub const fn per_second(max: u64) -> Self {
        Self::new(max, Duration::from_secs(1))
    }

    /// At most `max` in any minute.
    #[must_use]
    pub const fn per_minute(max: u64) -> Self {
        Self::new(max, Duration::from_secs(60))
    }

    /// At most `max` in any hour.
    #[must_use]
    pub const fn per_hour(max: u64) -> Self {
        Self::new(max, Duration::from_secs(60 * 60))
    }

    /// At most `max` in any 24 hours.
    #[must_use]
    pub const fn per_day(max: u64) -> Self {
        Self::new(max, Duration::from_secs(24 * 60 * 60))
    }

    /// The same window with another `max`.
    #[must_use]
    pub const fn with_max(mut self, max: u64) -> Self {
        self.max = if max > MAX_COUNT { MAX_COUNT } else { max };
        self
    }

    /// How much a bucket algorithm admits at once; `max` unless set. The other algorithms have no burst.
    ///
    /// # Panics
    ///
    /// If `burst` is 0, which would admit nothing.
    #[must_use]
    pub const fn with_burst(mut self, burst: u64) -> Self {
        assert!(burst > 0, "the burst of a limit is at least 1");
        self.burst = if burst > MAX_COUNT { MAX_COUNT } else { burst };
        self
    }

    /// What a bucket algorithm admits at once: the burst, or `max`; nothing if `max` is 0.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        if self.burst == 0 || self.max == 0 { self.max } else { self.burst }
    }

    /// What is admitted in any window.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The window.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// The window in microseconds.
    #[must_use]
    pub const fn window_us(&self) -> u64 {
        self.window_us
    }
}

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
    const fn tag(self) -> &'static str {
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
            Self::SlidingWindow | Self::FixedWindow => limit.window_us,
            Self::SlidingCounter => 2 * limit.window_us,
            Self::TokenBucket | Self::LeakyBucket => {
                let full = u128::from(limit.capacity()) * u128::from(limit.window_us);
                u64::try_from(full.div_ceil(u128::from(limit.max.max(1)))).unwrap_or(u64::MAX)
            }
        }
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
}

/// A named limit, and how its checks behave. The attribute makes one per function; by hand it is a constant:
///
/// ```
/// use ratelimit_runtime::{Limit, Rule};
///
/// const LOGIN: Rule = Rule::new("login", Limit::per_minute(5));
/// ```
///
/// Rules of one name share their buckets.
#[derive(Debug)]
pub struct Rule {
    name: RuleName,
    algorithm: Algorithm,
    limit: Limit,
    cost: u64,
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
            limit,
            cost: 1,
            timeout: None,
            on_unavailable: None,
            shadow: false,
            resolved: OnceCell::new(),
            vetted_by: AtomicU64::new(0),
        }
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

    /// The same rule with another `max`: buckets are kept, and every admission counts against the `max` it was asked
    /// with.
    #[must_use]
    pub fn with_max(&self, max: u64) -> Self {
        let mut rule = self.clone();
        rule.limit = rule.limit.with_max(max);
        rule
    }

    /// The name as decisions show it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.resolved().label
    }

    /// The limit.
    #[must_use]
    pub const fn limit(&self) -> Limit {
        self.limit
    }

    /// How the limit is kept.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) const fn deadline(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) const fn policy(&self) -> Option<OnUnavailable> {
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
            let mut head = format!("{}:{}-", name::FORMAT, self.algorithm.tag());
            name::push_window(&mut head, self.limit.window_us);
            let _ = write!(head, ":{}:", name::escape(&name));
            Resolved { label: name::intern(&name), head: head.into_boxed_str() }
        })
    }
}

impl Clone for Rule {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            algorithm: self.algorithm,
            limit: self.limit,
            cost: self.cost,
            timeout: self.timeout,
            on_unavailable: self.on_unavailable,
            shadow: self.shadow,
            resolved: self.resolved.clone(),
            vetted_by: AtomicU64::new(self.vetted_by.load(Ordering::Relaxed)),
        }
    }
}

//! [`Rule`]: one or several named limits, and how their checks behave.

mod algorithm;
mod block;
mod cache;
mod calendar;
mod limit;
mod name;
mod on_unavailable;
mod policy;
mod prefetch;
mod terms;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::algorithm::Algorithm;
pub(crate) use self::block::BlockDuration;
pub(crate) use self::cache::Names;
use self::cache::RuleCache;
pub use self::calendar::CalendarUnit;
pub use self::limit::Limit;
use self::limit::MAX_LIMITS;
pub(crate) use self::name::{FORMAT, MAX_NAME, Name, push_head, push_in_flight_head};
use self::name::{bounded, from_type_path};
pub use self::on_unavailable::OnUnavailable;
pub use self::policy::Policy;
pub use self::policy::overrides::Override;
pub(crate) use self::policy::{Policies, checked};
pub(crate) use self::terms::Terms;
#[cfg(feature = "watch")]
pub(crate) use self::text::Entries;
pub use self::text::RuleSummary;
use crate::key::KeyKind;

/// A named limit, or several limits on one key, and how their checks behave. The attribute makes
/// one rule per function; by hand a rule is a static:
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
/// Rules of one name, with the same windows and algorithm, share their counts.
#[derive(Clone)]
pub struct Rule {
    name: RuleName,
    terms: Terms,
    policy: Option<PolicyName>,
    template: Option<KeyTemplate>,
    cache: RuleCache,
}

/// The template of a rule's key, and the kinds of its placeholders.
#[derive(Clone, Copy)]
struct KeyTemplate(&'static str, &'static [KeyKind]);

#[derive(Clone)]
enum RuleName {
    Given(Cow<'static, str>),
    /// The path of the function, and the number of this one among its stacked attributes.
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
    /// A rule with a name of its own, of at most 128 bytes; a longer one makes each call
    /// `Misconfigured`. Braces, colons and control characters in it are stored escaped.
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

    /// A rule whose name, of at most 128 bytes, is made at run time; a longer one makes each call
    /// `Misconfigured`.
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

    /// A rule that admits at most `max` calls in flight per key, over all processes that share the
    /// store, and has no other limit. Make its calls with
    /// [`RateLimiter::enter`](crate::RateLimiter::enter).
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
        Self::with_terms(RuleName::Given(Cow::Borrowed(name)), Terms::NONE).with_concurrent(max)
    }

    /// [`in_flight`](Self::in_flight) for the `nth` attribute of the function with this `path`.
    #[doc(hidden)]
    #[must_use]
    pub const fn in_flight_derived(path: fn() -> &'static str, nth: u8, max: u64) -> Self {
        Self::with_terms(RuleName::Derived(path, nth), Terms::NONE).with_concurrent(max)
    }

    /// The rule of the `nth` attribute (from 1) of the function whose path `path` gives.
    #[doc(hidden)]
    #[must_use]
    pub const fn derived_nth(path: fn() -> &'static str, nth: u8, limit: Limit) -> Self {
        Self::with_name(RuleName::Derived(path, nth), limit)
    }

    const fn with_name(name: RuleName, limit: Limit) -> Self {
        Self::with_terms(name, Terms::NONE.and(limit))
    }

    #[allow(clippy::large_types_passed_by_value, reason = "it moves in")]
    const fn with_terms(name: RuleName, terms: Terms) -> Self {
        Self {
            name,
            terms,
            policy: None,
            template: None,
            cache: RuleCache::new(),
        }
    }

    /// The rule after a change of its settings, which voids the state that limiters kept of it.
    const fn changed(mut self) -> Self {
        self.cache.void();
        self
    }

    /// Adds a limit on the same key. A call is charged to all limits, or to none.
    ///
    /// # Panics
    ///
    /// If the rule has 8 limits already; in a constant, at compile time.
    #[must_use]
    pub const fn and(mut self, limit: Limit) -> Self {
        assert!(self.terms.len < MAX_LIMITS, "a rule has at most 8 limits");
        self.terms = self.terms.and(limit);
        self.changed()
    }

    /// Sets the algorithm that keeps the limits; [`Algorithm::SlidingWindow`] by default. Any other
    /// one makes each call `Misconfigured` where only calls in flight are limited.
    #[must_use]
    pub const fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        self.terms = self.terms.with_algorithm(algorithm);
        self.changed()
    }

    /// Sets how long a key is refused once the limits refuse it, at most [`Limit::MAX_WINDOW`];
    /// zero for not at all. Refusals by the block do not extend it. `peek` and shadow mode never
    /// set it, nor does a call that is also refused by another rule of its stack or for lack of a
    /// permit. Without limits each call is `Misconfigured`.
    #[must_use]
    pub const fn with_block(mut self, block: Duration) -> Self {
        self.terms.block = BlockDuration::fixed(block);
        self.changed()
    }

    /// Sets how long a key is refused once the limits refuse it: for `first`, and with each further
    /// offence for twice as long as the last time, up to `longest`.
    ///
    /// An offence is a refusal by the limits of a call that nothing else refuses: neither another
    /// rule of its stack nor the lack of a permit. Refusals by the block, in shadow mode or by a
    /// block set by hand are none. Offences are forgotten `longest` after the last block has ended,
    /// and at once by [`unblock`](crate::RateLimiter::unblock) and
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

    /// Lets a refused call wait for room, for at most `wait`, which is cut to
    /// [`Limit::MAX_WINDOW`]; zero refuses at once.
    ///
    /// A call whose [`retry_after`](crate::Decision::retry_after) is longer is refused at once, in
    /// a stack if that is so of any rule that refuses; an open estimate of `actual_cost` counts as
    /// spent. Under [`Deny`](crate::OnUnavailable::Deny) a call whose store could not be asked
    /// waits until it serves; else [`on_unavailable`](Self::with_on_unavailable) answers.
    ///
    /// Callers of one limiter take turns, first come, first served, in a queue for each key that
    /// refuses. A queue has room for 1,000 callers, and a limiter for 50,000; the first 16 of a key
    /// always find room. In a stack, calls that share another key take no more of the room than its
    /// limits admit within the wait. A caller that finds no room, or has no turn in time, is
    /// refused without asking the store: see [the guide](crate::guide::attribute#waiting).
    #[must_use]
    pub const fn with_wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(if wait.as_micros() > Limit::MAX_WINDOW.as_micros() {
            Limit::MAX_WINDOW
        } else {
            wait
        });
        self.changed()
    }

    /// Takes units ahead for this long, the lease, where this process calls often on a key, and
    /// admits from its own memory until they are spent or the lease ends. Zero takes none ahead.
    ///
    /// Units taken ahead are charged, so the limits hold. But near the limit a process holds units
    /// that another could use: this is for limits that are [large beside the
    /// load](crate::guide::prefetch). Only Redis takes units ahead, and only for calls that are
    /// checked by themselves and reserve nothing; elsewhere this has no effect.
    ///
    /// The lease is from 10 ms to 10 s, and at most a fiftieth of the shortest window. Any other
    /// lease makes each call `Misconfigured`, and so does one without limits, or beside a block:
    /// units that another process holds would block callers without an offence.
    #[must_use]
    pub const fn with_prefetch(mut self, lease: Duration) -> Self {
        self.terms = self.terms.with_prefetch(lease);
        self.changed()
    }

    /// Takes limits, algorithm and block from the limiter's policy of this name at every check, and
    /// every other setting that the policy has.
    #[must_use]
    pub const fn with_policy(self, policy: &'static str) -> Self {
        self.with_policy_name(PolicyName::Fixed(policy))
    }

    /// A copy of the rule with a policy whose name is made at run time, such as that of a tenant's
    /// plan: see [`with_policy`](Self::with_policy).
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

    /// Admits at most `max` calls at a time per key, over all processes that share the store, in
    /// addition to other limits; 0 refuses every call. Make the calls with
    /// [`RateLimiter::enter`](crate::RateLimiter::enter).
    #[must_use]
    pub const fn with_concurrent(mut self, max: u64) -> Self {
        self.terms.concurrent = Some(max);
        self.changed()
    }

    /// Sets how long the permits of calls in flight stay taken when their process dies; 30 seconds
    /// by default. It has no effect on a rule that does not limit calls in flight.
    ///
    /// # Panics
    ///
    /// If `lease` is shorter than 5 seconds or longer than an hour; in a constant, at compile time.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        assert!(
            Terms::is_lease(lease),
            "a lease lasts at least 5 seconds and at most an hour"
        );
        self.terms.lease = Some(lease);
        self.changed()
    }

    /// Sets how long a whole check of this rule may take, in place of the limiter's timeout: any
    /// time here, 1 ms to 1 min in an attribute or a policy. Waiting for room is not part of it.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.terms.timeout = Some(timeout);
        self.changed()
    }

    /// Sets the answer while the store cannot answer, in place of the limiter's setting.
    #[must_use]
    pub const fn with_on_unavailable(mut self, answer: OnUnavailable) -> Self {
        self.terms.on_unavailable = Some(answer);
        self.changed()
    }

    /// Sets the time zone of calendar quotas, by its name in the tz database; UTC by default. A
    /// zone that the database lacks makes each call `Misconfigured`, and so does a zone without
    /// calendar quotas: [`Limit::per_day`] is any 24 hours, in every zone.
    #[cfg_attr(not(feature = "calendar"), doc(hidden))]
    #[must_use]
    pub const fn with_zone(mut self, zone: &'static str) -> Self {
        self.terms.zone = Some(zone);
        self.changed()
    }

    /// Sets how calls render their keys, for [`RateLimiter::rules`](crate::RateLimiter::rules) and
    /// `ratelimit-admin find`: a template as for [`key!`](crate::key!), and the kind of each of its
    /// placeholders in order. It changes no decision. Attributes set it themselves.
    ///
    /// ```
    /// use ratelimit_runtime::{KeyKind, Limit, Rule};
    ///
    /// static LOGIN: Rule =
    ///     Rule::new("login", Limit::per_minute(5)).with_template("<email>", &[KeyKind::Text]);
    /// ```
    #[must_use]
    pub const fn with_template(
        mut self,
        template: &'static str,
        kinds: &'static [KeyKind],
    ) -> Self {
        self.template = Some(KeyTemplate(template, kinds));
        self
    }

    /// Sets shadow mode: if `on`, the rule decides and records, but never refuses, so that no call
    /// waits either.
    ///
    /// A refusal in shadow mode sets no [block](Self::with_block), and is no offence: such a call
    /// must not refuse those of processes that enforce the rule.
    #[must_use]
    pub const fn with_shadow(mut self, on: bool) -> Self {
        self.terms.shadow = Some(on);
        self
    }

    /// A copy of the rule with another `max` for its first limit. It shares the counts of the rule,
    /// and each call is decided by the `max` of its own copy. Where only calls in flight are
    /// limited, each call is `Misconfigured`.
    #[must_use]
    pub fn with_max(&self, max: u64) -> Self {
        let mut rule = self.clone();
        rule.terms = rule.terms.with_max(max);
        rule.changed()
    }

    /// A copy of the rule whose calls have this cost; 1 by default. A call of cost 0 is admitted
    /// while the limit is not exceeded, and charges nothing. Where only calls in flight are
    /// limited, a call of another cost than 1 is `Misconfigured`.
    #[must_use]
    pub fn with_cost(&self, cost: u64) -> Self {
        let mut rule = self.clone();
        rule.terms.cost = cost;
        rule
    }

    /// The name of the rule, as decisions, the log and metrics show it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.names().name.as_str()
    }

    /// The limits, in the order in which they were given. A policy may replace them.
    #[must_use]
    #[inline]
    pub fn limits(&self) -> &[Limit] {
        self.terms.limits()
    }

    /// The algorithm that keeps the limits.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.terms.algorithm()
    }

    /// The cost that each call of the rule charges.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.terms.cost
    }

    /// The name of the policy that replaces limits, algorithm and block; `None` also if each call
    /// names its policy.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        match self.policy.as_ref()? {
            PolicyName::Fixed(name) => Some(name),
            PolicyName::Made(name) => Some(name),
            PolicyName::PerCall => None,
        }
    }

    /// The limits and settings that hold for every call.
    #[inline]
    pub(crate) const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// `true` if a policy sets the limits.
    #[inline]
    pub(crate) const fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// The most calls of a key in flight at a time; `None` for any number.
    #[must_use]
    pub const fn concurrent(&self) -> Option<u64> {
        self.terms.concurrent
    }

    /// The value that a limiter keeps with the rule as it is now.
    #[inline]
    pub(crate) fn kept<T: Send + Sync + 'static>(&self) -> Option<&Arc<T>> {
        self.cache.get()
    }

    /// Keeps a limiter's value with the rule, unless another limiter keeps one.
    pub(crate) fn keep<T: Send + Sync + 'static>(&self, kept: Arc<T>) {
        self.cache.set(kept);
    }

    /// The name in its forms: in full, as keys hold it, and as decisions show it.
    #[inline]
    pub(crate) fn names(&self) -> &Names {
        self.cache.names(|| match &self.name {
            RuleName::Given(name) => Cow::Borrowed(bounded(name)),
            RuleName::Derived(path, nth) => Cow::Owned(from_type_path(path(), *nth)),
        })
    }

    /// The address of a rule whose name is derived from a path. A function has one such rule, and
    /// no two are meant to share the name.
    pub(crate) fn site(&self) -> Option<usize> {
        matches!(self.name, RuleName::Derived(..)).then(|| std::ptr::from_ref(self).addr())
    }

    /// A summary of the rule by the terms that a limiter applies. `kinds` are those of the values
    /// that a call has rendered; `None` for a key made by hand.
    pub(crate) fn summary(
        &self,
        terms: &Terms,
        policy: Option<&str>,
        kinds: Option<Vec<KeyKind>>,
    ) -> RuleSummary {
        let given = self.template.map(|KeyTemplate(text, kinds)| (text, kinds));
        let has_no_key = kinds.as_ref().is_some_and(Vec::is_empty);
        let (template, of_rule) = given.or(has_no_key.then_some(("", &[][..]))).unzip();
        let (block, first) = (terms.block, terms.block.first());
        RuleSummary {
            name: self.names().full.clone(),
            limits: terms.limits().to_vec(),
            algorithm: terms.algorithm(),
            block: (!first.is_zero())
                .then(|| (first, first.max(Duration::from_micros(block.longest_us())))),
            concurrent: terms.concurrent.map(|max| (max, terms.lease())),
            prefetch: terms.prefetch(),
            shadow: Some(terms.shadow == Some(true)),
            template,
            kinds: kinds.unwrap_or_else(|| of_rule.unwrap_or_default().to_vec()),
            is_hashed: false,
            policy: policy.map(Into::into),
            is_policy_per_call: matches!(
                self.policy,
                Some(PolicyName::Made(_) | PolicyName::PerCall)
            ),
            is_max_per_call: false,
        }
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

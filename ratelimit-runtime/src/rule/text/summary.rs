//! [`RuleSummary`]: a rule as operators see it.

use std::time::Duration;

use crate::key::KeyKind;
use crate::rule::algorithm::Algorithm;
use crate::rule::limit::Limit;
use crate::rule::name::escape;

/// A rule as a limiter applies it, as [`RateLimiter::rules`](crate::RateLimiter::rules) lists and
/// `ratelimit-admin rules` prints it. It holds no key and no value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleSummary {
    /// The name of the rule, in full.
    pub name: Box<str>,
    /// The limits after policy and time zone; empty if only calls in flight are limited.
    pub limits: Vec<Limit>,
    /// The algorithm that keeps the limits.
    pub algorithm: Algorithm,
    /// The first and the longest block, which are equal unless blocks grow; `None` for no block.
    pub block: Option<(Duration, Duration)>,
    /// The number of calls of a key that may be in flight, and the lease of their permits; `None`
    /// for any number.
    pub concurrent: Option<(u64, Duration)>,
    /// The lease of units that a process takes ahead; zero if it takes none.
    pub prefetch: Duration,
    /// `true` if the rule is in shadow mode and refuses no call; `None` if each call says whether
    /// it is.
    pub shadow: Option<bool>,
    /// The template of the key; empty for a rule without a key, `None` if it is not known.
    pub template: Option<&'static str>,
    /// The kind of each placeholder of the template.
    pub kinds: Vec<KeyKind>,
    /// `true` if the store holds keys [hashed](crate::RateLimiterBuilder::hash_keys).
    pub is_hashed: bool,
    /// The policy that sets limits, algorithm and block; `None` without one.
    pub policy: Option<Box<str>>,
    /// `true` if each call names its policy; then each policy used has a summary.
    pub is_policy_per_call: bool,
    /// `true` if each call gives the `max` of the first limit.
    pub is_max_per_call: bool,
}

impl RuleSummary {
    /// The field of the store's hash: the escaped name and, if each call names it, a colon and the
    /// policy.
    pub(crate) fn field(&self) -> String {
        let name = escape(&self.name);
        match &self.policy {
            Some(policy) if self.is_policy_per_call => format!("{name}:{policy}"),
            _ => name.into_owned(),
        }
    }
}

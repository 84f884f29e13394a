//! [`OnUnavailable`]: the answer to a call that the store does not answer.

use std::fmt;

/// The answer to a call while the store cannot answer. Its text is what attributes and
/// configurations write: `local`.
///
/// | the store | `Local` | `Allow` | `Deny` |
/// | --- | --- | --- | --- |
/// | is up, and did not answer in time | limited by this process | limited by this process | `Unavailable` |
/// | is slow or down, or answers that it cannot serve | limited by this process | let through | `Unavailable` |
/// | has no room left | limited by this process | limited by this process | `Unavailable` |
/// | is set up wrongly | `Misconfigured` | `Misconfigured` | `Misconfigured` |
///
/// Unless the store is set up wrongly, a refusal in the deny cache of this process that still holds
/// is repeated first, as without the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnUnavailable {
    /// Limits calls in the memory of this process, by the same limits; the decision is degraded.
    /// Every process then has counts of its own, from zero: with *N* processes, a window that
    /// overlaps an outage, or has a call that the store answered too late, admits up to
    /// (*N* + 1) · `max`.
    #[default]
    Local,
    /// Admits calls unchecked while the store is slow or down, or answers that it cannot serve
    /// (`CLUSTERDOWN`, `LOADING`, …); the decision is degraded. While the store is up and answers
    /// late, or refuses writes, `Allow` means [`Local`](Self::Local): otherwise a client that
    /// floods it could switch the limit off.
    Allow,
    /// Refuses with [`RateLimitError::Unavailable`](crate::RateLimitError::Unavailable).
    Deny,
}

impl OnUnavailable {
    pub(super) const ALL: [Self; 3] = [Self::Local, Self::Allow, Self::Deny];
}

impl fmt::Display for OnUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

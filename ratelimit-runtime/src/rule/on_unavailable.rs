//! [`OnUnavailable`]: what happens to a call that the store does not answer.

use std::fmt;

/// What to do when the store cannot answer. As text it is what attributes and configurations write:
/// `local`.
///
/// | the store | `Local` | `Allow` | `Deny` |
/// | --- | --- | --- | --- |
/// | is up, and did not answer in time | limited by this process | limited by this process | `Unavailable` |
/// | is slow or down, or answers that it cannot serve | limited by this process | let through | `Unavailable` |
/// | is out of memory | limited by this process | limited by this process | `Unavailable` |
/// | is set up wrongly | `Misconfigured` | `Misconfigured` | `Misconfigured` |
///
/// Unless the store is set up wrongly, a refusal in the deny cache of this process that still holds
/// is answered first, as it would have been without the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnUnavailable {
    /// Go on limiting in the memory of this process, by the same limits; the decision is degraded.
    /// Every process then has a budget of its own, of which nothing is used at first: with *N*
    /// processes, a window that overlaps an outage, or has a call that the store answered too late,
    /// admits up to (*N* + 1) · `max`.
    #[default]
    Local,
    /// Let calls through, unchecked, while the store is slow or down, or answers that it cannot serve
    /// (`CLUSTERDOWN`, `NOREPLICAS`, …); the decision is degraded. A store that is up and answers
    /// late, or has no memory left, is no reason to let calls through, because an attacker who
    /// floods it could then switch the limit off: there `Allow` means [`Local`](Self::Local).
    Allow,
    /// Refuse with [`RateLimitError::Unavailable`](crate::RateLimitError::Unavailable).
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

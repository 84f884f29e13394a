//! [`LimitStatus`]: what one limit says to one call.

/// How long a call waits at most that only open reservations keep out: they may be released at any moment. 50 ms.
pub(crate) const RESERVED_WAIT: u64 = 50_000;

/// What one limit says to one call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LimitStatus {
    /// How long until the limit would admit the call; 0 if it does now.
    pub(crate) wait: u64,
    /// Whether the limit refuses the call even without the open reservations.
    pub(crate) exceeded: bool,
    pub(crate) remaining: u64,
    /// How long until the limit is whole again.
    pub(crate) reset: u64,
}

impl LimitStatus {
    /// The wait of a call where open reservations count: `with` them, and `without`. `None` means that the call does not
    /// fit before some of them are settled.
    pub(crate) fn wait_behind_reservations(with: Option<u64>, without: u64) -> u64 {
        with.unwrap_or(u64::MAX).min(without.max(RESERVED_WAIT))
    }
}

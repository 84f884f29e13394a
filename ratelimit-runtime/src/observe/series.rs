//! The names of metrics: with labels, they name a series.

/// The labels of a series, each with its value.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

#[cfg(feature = "metrics")]
pub(super) const DECISIONS: &str = "ratelimit_decisions_total";
pub(super) const COST_DROPPED: &str = "ratelimit_cost_dropped_total";
pub(super) const IN_FLIGHT: &str = "ratelimit_in_flight";
#[cfg(feature = "metrics")]
pub(super) const STORE: &str = "ratelimit_store_seconds";
#[cfg(feature = "watch")]
pub(super) const POLICY_CHANGES: &str = "ratelimit_policy_changes_total";
#[cfg(feature = "redis")]
pub(super) use self::of_redis::*;

#[cfg(feature = "redis")]
mod of_redis {
    #[cfg(feature = "metrics")]
    pub(in super::super) const COMMANDS: &str = "ratelimit_command_decisions";
    pub(in super::super) const PERMITS_LOST: &str = "ratelimit_permits_lost_total";
    pub(in super::super) const CONNECTIONS: &str = "ratelimit_connections";
    pub(in super::super) const CONNECTS: &str = "ratelimit_connects_total";
    pub(in super::super) const LOSSES: &str = "ratelimit_connection_losses_total";
    pub(in super::super) const OUTAGES: &str = "ratelimit_outages_total";
}

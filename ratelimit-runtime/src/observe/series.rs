//! The names of metrics, which with their labels name series.
#![cfg_attr(
    not(all(feature = "metrics", feature = "redis", feature = "watch")),
    allow(dead_code, reason = "each feature has its own")
)]

/// The labels of a series, with their values.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

pub(super) const DECISIONS: &str = "ratelimit_decisions_total";
pub(super) const COST_DROPPED: &str = "ratelimit_cost_dropped_total";
pub(super) const IN_FLIGHT: &str = "ratelimit_in_flight";
pub(super) const STORE: &str = "ratelimit_store_seconds";
pub(super) const POLICY_CHANGES: &str = "ratelimit_policy_changes_total";
pub(super) const COMMANDS: &str = "ratelimit_command_decisions";
pub(super) const PERMITS_LOST: &str = "ratelimit_permits_lost_total";
pub(super) const PREFETCHED: &str = "ratelimit_prefetched_units_total";
pub(super) const CONNECTIONS: &str = "ratelimit_connections";
pub(super) const CONNECTS: &str = "ratelimit_connects_total";
pub(super) const LOSSES: &str = "ratelimit_connection_losses_total";
pub(super) const OUTAGES: &str = "ratelimit_outages_total";

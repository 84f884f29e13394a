//! Decisions in the log. Never the key: it may be personal data.

use tracing::level_filters::LevelFilter;

use super::observation::Observed;

/// Whether the level of such a decision is looked at by anybody at all.
#[inline]
pub(super) fn listens(allowed: bool, shadow: bool) -> bool {
    let level = match (allowed, shadow) {
        (true, _) => LevelFilter::TRACE,
        (false, true) => LevelFilter::INFO,
        (false, false) => LevelFilter::DEBUG,
    };
    level <= LevelFilter::current()
}

pub(super) fn decision(observed: &Observed<'_>) {
    let Observed { decision, shadow, .. } = observed;
    let rule = decision.rule();
    if decision.is_allowed() {
        tracing::trace!(rule, remaining = decision.remaining(), degraded = decision.is_degraded(), "admitted");
    } else if *shadow {
        tracing::info!(rule, "a call that the limit refuses runs: the rule is in shadow mode");
    } else {
        let retry_after = decision.retry_after();
        tracing::debug!(rule, ?retry_after, blocked = decision.is_blocked(), "refused");
    }
}

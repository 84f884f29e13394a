//! The settings that `prefetch` goes together with: a lease in bounds, windows that are long beside
//! it, and no block.

use std::time::Duration;

use super::block::BlockDuration;
use super::limit::Limit;

const MIN_LEASE: Duration = Duration::from_millis(10);
const MAX_LEASE: Duration = Duration::from_secs(10);

/// The fewest leases within the shortest window: the units that a process holds near the limit are
/// then a few hundredths of it.
const LEASES: u32 = 50;

/// The mistake in taking units of these limits ahead for a `lease`; `None` also if that is zero,
/// which takes none ahead. The window of a calendar quota is always long enough.
pub(super) fn mistake(lease: Duration, limits: &[Limit], block: BlockDuration) -> Option<String> {
    if lease.is_zero() {
        return None;
    }
    let fault = |message: &str| Some(message.to_owned());
    if !(MIN_LEASE..=MAX_LEASE).contains(&lease) {
        return fault("this prefetch is out of bounds: write one from \"10ms\" to \"10s\"");
    }
    if block != BlockDuration::NONE {
        return fault(
            "what another process has taken ahead would block the innocent: leave `prefetch` out, \
             or `block`",
        );
    }
    let Some(window) = limits.iter().map(Limit::window).min() else {
        return fault(
            "of calls in flight none is taken ahead: leave `prefetch` out, or set a limit as well",
        );
    };
    let longest = window / LEASES;
    if lease <= longest {
        None
    } else if longest < MIN_LEASE {
        fault(
            "`prefetch` is at most a fiftieth of the shortest window: leave it out, because no \
             window may be below 500ms beside it",
        )
    } else {
        let longest = longest.as_millis();
        Some(format!(
            "`prefetch` is at most a fiftieth of the shortest window: write at most \
             \"{longest}ms\""
        ))
    }
}

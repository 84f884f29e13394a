//! Observing decisions: each one passes here once, admitted or refused, before anybody acts on it.
//!
//! It goes to the log (`tracing`), and to whoever [collects](collect) the decisions of a future: tests, and adapters that
//! write response headers.

mod collector;
mod log;
mod observation;

pub use self::collector::{Collected, collect};
pub use self::observation::Observation;
pub(crate) use self::observation::Observed;

/// Whether anybody wants to know of such decisions.
#[inline]
pub(crate) fn listens(allowed: bool, shadow: bool) -> bool {
    log::listens(allowed, shadow) || collector::listens()
}

/// Tells whoever wants to know of a decision.
#[cold]
pub(crate) fn decision(observed: &Observed<'_>) {
    if log::listens(observed.decision.is_allowed(), observed.shadow) {
        log::decision(observed);
    }
    if collector::listens() {
        collector::decision(observed);
    }
}

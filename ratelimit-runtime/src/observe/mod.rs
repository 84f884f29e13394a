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

/// Tells whoever wants to know of a decision.
pub(crate) fn decision(observed: Observed<'_>) {
    log::decision(&observed);
    collector::decision(&observed);
}

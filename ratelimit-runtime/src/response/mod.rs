//! Refusals and limits over HTTP: `fields` makes header fields of decisions, and [`Responses`]
//! chooses the response to a refusal. The adapters turn both into types of their frameworks.

mod body;
mod fields;
mod names;
mod refusal;
mod rejection;
mod request;
mod responses;

#[cfg(feature = "_layer")]
pub(crate) use self::fields::{Standings, joined, legacy_fields};
pub use self::refusal::Refusal;
pub use self::rejection::KeyRejection;
#[cfg(feature = "_layer")]
pub(crate) use self::request::{answering, answering_now};
pub use self::responses::Responses;
#[cfg(feature = "_layer")]
use crate::decision::Decision;

/// An extension of a response: the refusal that it is.
#[cfg(feature = "_layer")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalDecision {
    pub(crate) decision: Decision,
    /// `true` if the fields are those of all decisions in a layer, including this one; `false` if
    /// they are those of this refusal alone, which a layer replaces.
    pub(crate) is_in_layer: bool,
}

#[cfg(feature = "_layer")]
impl RefusalDecision {
    pub(crate) fn alone(decision: Decision) -> Self {
        Self {
            decision,
            is_in_layer: false,
        }
    }
}

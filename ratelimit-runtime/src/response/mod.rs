//! Refusals and limits over HTTP: `fields` makes header fields of decisions, [`Responses`] says how
//! a refusal is answered. The adapters put both into the words of their frameworks.

mod body;
mod fields;
mod names;
mod refusal;
mod rejection;
mod request;
mod responses;

#[cfg(feature = "_layer")]
pub(crate) use self::fields::{Standings, legacy_fields};
pub use self::refusal::Refusal;
pub use self::rejection::KeyRejection;
#[cfg(feature = "_layer")]
pub(crate) use self::request::{answering, answering_now};
pub use self::responses::Responses;
#[cfg(feature = "_layer")]
use crate::decision::Decision;

/// An extension of a response whose fields are those of this refusal alone. A layer replaces them
/// by those of all decisions, this one included.
#[cfg(feature = "_layer")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalDecision(pub(crate) Decision);

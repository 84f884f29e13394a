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

/// An extension of a response whose fields are those of this refusal alone. A layer replaces the
/// fields by those of all decisions, including this one.
#[cfg(feature = "_layer")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalDecision(pub(crate) Decision);

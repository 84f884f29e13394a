//! What clients are told over HTTP: `fields` writes decisions as header fields, [`Responses`] says
//! what a refusal looks like. The adapters put both into the words of their frameworks.

mod body;
mod fields;
mod refusal;
mod responses;

#[cfg(any(feature = "actix-web", feature = "poem", feature = "tower"))]
pub(crate) use self::fields::{Standings, legacy_fields, reset};
pub use self::refusal::Refusal;
pub use self::responses::Responses;
#[cfg(any(feature = "actix-web", feature = "poem", feature = "tower"))]
use crate::decision::Decision;

/// In the extensions of a response: its fields are those of this refusal alone. A layer replaces
/// them by those of all decisions, this one included.
#[cfg(any(feature = "actix-web", feature = "poem", feature = "tower"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told(pub(crate) Decision);

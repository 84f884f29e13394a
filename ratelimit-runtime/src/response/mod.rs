//! What clients are told over HTTP: `fields` writes decisions as header fields, [`Responses`] says what a refusal looks
//! like. The adapters put both into the words of their frameworks.

mod fields;
mod responses;

#[cfg(any(feature = "actix-web", feature = "poem", feature = "tower"))]
pub(crate) use self::fields::fields;
pub use self::responses::Responses;

/// In the extensions of a response: its fields are those of one refusal. A layer that knows of all decisions replaces them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told;

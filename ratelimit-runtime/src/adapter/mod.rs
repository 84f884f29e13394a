//! Decisions in the words of a framework: each adapter translates, and decides nothing.

#[cfg(feature = "actix-web")]
pub(crate) mod actix_web;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "http")]
mod client_ip;
#[cfg(feature = "http")]
mod header_key;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "_layer")]
pub(crate) mod layer;
#[cfg(feature = "poem")]
pub(crate) mod poem;
mod refusal;
#[cfg(feature = "tonic")]
mod tonic;
#[cfg(feature = "tower")]
pub(crate) mod tower;

#[cfg(feature = "http")]
pub use self::header_key::{HeaderKey, NamedHeader};
pub use self::refusal::FromRateLimitError;

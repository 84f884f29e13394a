//! What a refusal becomes: each adapter translates, and decides nothing.

#[cfg(feature = "actix-web")]
mod actix_web;
#[cfg(feature = "axum")]
mod axum;
#[cfg(any(feature = "actix-web", feature = "axum", feature = "tonic"))]
mod http_refusal;
mod refusal;
#[cfg(feature = "tonic")]
mod tonic;

pub use self::refusal::FromRateLimitError;

//! What a refusal becomes: each adapter translates, and decides nothing.

#[cfg(feature = "axum")]
mod axum;
mod refusal;

pub use self::refusal::FromRateLimitError;

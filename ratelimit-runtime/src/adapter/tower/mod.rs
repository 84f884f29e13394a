//! [`RateLimitLayer`](crate::RateLimitLayer) for HTTP servers on tower.

mod body;
mod protocol;
#[cfg(any(feature = "axum", feature = "tonic"))]
mod request;
mod server;

#[cfg(feature = "tonic")]
pub(super) use self::protocol::Protocol;
pub use self::server::RateLimitService;

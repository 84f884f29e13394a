//! Services of tower: [`RateLimitLayer`](crate::RateLimitLayer) for HTTP servers,
//! [`RateLimitClientLayer`] for everything else.

mod body;
mod client;
#[cfg(any(feature = "axum", feature = "tonic"))]
mod client_ip;
mod refusal;
mod server;

pub use self::body::LimitedBody;
pub use self::client::{RateLimitClient, RateLimitClientLayer};
pub use self::refusal::NoKey;
pub use self::server::RateLimitService;

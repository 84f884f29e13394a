//! Services of tower: [`RateLimitLayer`](crate::RateLimitLayer) for HTTP servers,
//! [`RateLimitClientLayer`] for everything else.

mod body;
mod client;
mod refusal;
mod server;

pub use self::client::{RateLimitClient, RateLimitClientLayer};
pub use self::server::RateLimitService;

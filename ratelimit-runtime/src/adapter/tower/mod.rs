//! Services of tower: [`RateLimitLayer`](crate::RateLimitLayer) for HTTP servers, [`RateLimitClientLayer`] for everything
//! else.

mod client;
mod server;

pub use self::client::{RateLimitClient, RateLimitClientLayer};
pub use self::server::RateLimitService;

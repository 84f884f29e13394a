//! [`RateLimitLayer`](crate::RateLimitLayer) for HTTP servers on tower.

mod body;
mod refusal;
mod server;

pub use self::server::RateLimitService;

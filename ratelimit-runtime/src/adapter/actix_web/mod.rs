//! actix-web: refusals, extractors, and [`RateLimitLayer`](crate::RateLimitLayer) as a middleware.

mod extract;
mod middleware;
mod refusal;

pub use self::middleware::RateLimitMiddleware;

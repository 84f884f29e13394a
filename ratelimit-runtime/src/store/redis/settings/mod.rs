//! What URLs and methods of [`RedisStore`](crate::RedisStore) say: which servers, and how to log in
//! there. Plain data: nothing here connects.

pub(crate) mod credentials;
pub(crate) mod deployment;
pub(crate) mod login;
pub(crate) mod server;
#[cfg(feature = "redis-tls")]
pub(crate) mod tls;
pub(crate) mod url;

/// Without the feature `redis-tls`, no server has TLS.
#[cfg(not(feature = "redis-tls"))]
pub(crate) mod tls {
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) enum Tls {}

    pub(crate) fn platform() -> Option<Tls> {
        None
    }
}

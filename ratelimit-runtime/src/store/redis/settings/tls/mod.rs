//! [`Tls`]: TLS by rustls, with the feature `redis-tls`; without it, no server has TLS.

#[cfg(feature = "redis-tls")]
mod rustls;

#[cfg(feature = "redis-tls")]
pub(crate) use self::rustls::{Tls, platform};

#[cfg(not(feature = "redis-tls"))]
pub(crate) use self::without::NoTls as Tls;

#[cfg(not(feature = "redis-tls"))]
mod without {
    #[derive(Clone)]
    pub(crate) enum NoTls {}
}

#[cfg(not(feature = "redis-tls"))]
pub(crate) fn platform() -> Option<Tls> {
    None
}

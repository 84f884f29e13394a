//! [`Tls`] where the feature `redis-tls` is off: there is none.

#[derive(Clone)]
pub(in super::super) enum Tls {}

impl Tls {
    pub(super) const PLATFORM: Option<Self> = None;
}

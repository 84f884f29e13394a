//! Layers: a [`Store`](super::Store) around a store, for any that there is.

mod deny_cache;

pub use self::deny_cache::DenyCache;
pub(super) use self::deny_cache::Miss;

//! Without the feature `metrics`, nothing is counted.

use super::labels::Outcome;
use crate::decision::Source;
use crate::rule::Name;

pub(crate) fn describe() {}

#[inline]
pub(super) fn decision(_: impl FnOnce() -> (Name, Outcome, Source)) {}

#[inline]
pub(super) fn failure(_: impl FnOnce() -> (Name, Outcome)) {}

#[inline]
pub(crate) fn timed<'a, F>(_: impl FnOnce() -> &'a str, asked: F) -> F {
    asked
}

#[cfg(feature = "redis")]
pub(crate) use self::of_redis::batches;
#[cfg(feature = "redis")]
pub(super) use self::of_redis::{connected, lost, moved, outage};

#[cfg(feature = "redis")]
mod of_redis {
    use super::super::connection::State;

    #[inline]
    pub(crate) fn batches(_: impl Iterator<Item = usize>) {}

    pub(crate) fn moved(_: &str, _: Option<State>, _: Option<State>) {}

    pub(crate) fn connected(_: &str) {}

    pub(crate) fn lost(_: &str) {}

    pub(crate) fn outage(_: &str) {}
}

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
pub(crate) use self::of_redis::Commands;
#[cfg(feature = "redis")]
pub(super) use self::of_redis::{connected, lost, moved, outage};

#[cfg(feature = "redis")]
mod of_redis {
    use super::super::connection::State;

    #[derive(Debug, Default)]
    pub(crate) struct Commands;

    #[allow(clippy::unused_self, reason = "as those that are told")]
    impl Commands {
        #[inline]
        pub(crate) fn add(&mut self, _: usize) {}

        #[inline]
        pub(crate) fn tell(&mut self) {}
    }

    pub(crate) fn moved(_: &str, _: Option<State>, _: Option<State>) {}

    pub(crate) fn connected(_: &str) {}

    pub(crate) fn lost(_: &str) {}

    pub(crate) fn outage(_: &str) {}
}

//! Without the feature `metrics`, nothing is counted.

use super::labels::OutcomeLabel;
use crate::decision::Source;
use crate::rule::Name;

pub(crate) fn describe() {}

#[inline]
pub(super) fn decision(_: impl FnOnce() -> (Name, OutcomeLabel, Source)) {}

#[inline]
pub(super) fn failure(_: impl FnOnce() -> (Name, OutcomeLabel)) {}

#[inline]
pub(super) fn cost_dropped(_: Name, _: u64) {}

#[cfg(feature = "watch")]
pub(super) fn policies_changed(_: bool) {}

#[inline]
pub(super) fn in_flight(_: Name, _: f64) {}

#[inline]
pub(crate) fn timed<'a, F>(_: impl FnOnce() -> &'a str, asked: F) -> F {
    asked
}

#[cfg(feature = "redis")]
pub(crate) use self::of_redis::command_sent;
#[cfg(feature = "redis")]
pub(super) use self::of_redis::{connected, lost, moved, outage, permit_lost};

#[cfg(feature = "redis")]
mod of_redis {
    use super::super::connection::ConnectionState;

    pub(crate) fn command_sent(_: usize) {}

    pub(crate) fn moved(_: &str, _: Option<ConnectionState>, _: Option<ConnectionState>) {}

    pub(crate) fn connected(_: &str) {}

    pub(crate) fn lost(_: &str) {}

    pub(crate) fn outage(_: &str) {}

    pub(crate) fn permit_lost(_: &str) {}
}

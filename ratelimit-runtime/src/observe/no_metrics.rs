//! Without the feature `metrics`, nothing is counted.

use super::labels::OutcomeLabel;
use super::series::Labels;
use crate::decision::Source;
use crate::rule::Name;

pub(crate) fn describe() {}

pub(super) fn add(_: &'static str, _: Labels<'_>, _: u64) {}

pub(super) fn move_gauge(_: &'static str, _: Labels<'_>, _: f64) {}

#[cfg(feature = "redis")]
pub(super) fn set(_: &'static str, _: Labels<'_>, _: u32) {}

#[inline]
pub(crate) fn decision(_: impl FnOnce() -> (Name, OutcomeLabel, Option<Source>)) {}

#[inline]
pub(crate) fn timed<'a, F>(_: impl FnOnce() -> &'a str, asked: F) -> F {
    asked
}

#[cfg(feature = "redis")]
pub(crate) fn command_sent(_: usize) {}

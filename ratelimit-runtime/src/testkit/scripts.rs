//! The scripts of the Redis store and their parts, for tests of this crate's own.

use crate::algorithm::Lua;
use crate::rule::Algorithm;
use crate::store::redis::scripts::script::{self, Parts};

/// The script of an algorithm.
#[must_use]
pub fn whole(algorithm: Algorithm) -> &'static str {
    script::of(algorithm).source()
}

/// The script of an algorithm without its full part: what its quick part leaves is an error.
#[must_use]
pub fn quick_alone(algorithm: Algorithm) -> String {
    Parts::of(algorithm).quick_alone().script()
}

/// The script of an algorithm without its quick part.
#[must_use]
pub fn full_alone(algorithm: Algorithm) -> String {
    Parts::of(algorithm).full_alone().script()
}

/// The script of fixed windows of which some are calendar periods.
#[must_use]
pub fn calendar() -> &'static str {
    script::CALENDAR.source()
}

/// The same without its full part.
#[must_use]
pub fn calendar_quick_alone() -> String {
    Parts::CALENDAR.quick_alone().script()
}

/// The same without its quick part.
#[must_use]
pub fn calendar_full_alone() -> String {
    Parts::CALENDAR.full_alone().script()
}

/// What stands in the place of an algorithm's number in questions to it.
pub const CALENDAR: u8 = script::CALENDAR_NUMBER;

/// The script of several keys that are all charged, or none.
#[must_use]
pub fn all_or_none() -> &'static str {
    script::ALL_OR_NONE.source()
}

/// The same, of which some may be places of calls in flight.
#[must_use]
pub fn all_or_none_with_places() -> &'static str {
    script::ALL_OR_NONE_WITH_PLACES.source()
}

/// The same, of which some may have calendar periods.
#[must_use]
pub fn all_or_none_with_calendar() -> &'static str {
    script::ALL_OR_NONE_WITH_CALENDAR.source()
}

/// The same, of which some may be such places, and others have calendar periods.
#[must_use]
pub fn all_or_none_with_both() -> &'static str {
    script::ALL_OR_NONE_WITH_BOTH.source()
}

/// The script of places of calls in flight alone.
#[must_use]
pub fn places() -> &'static str {
    script::PLACES.source()
}

/// The files of an algorithm's full part, in the order in which the script has them.
#[must_use]
pub fn files(algorithm: Algorithm) -> Vec<&'static str> {
    [&[script::COMMON], Lua::of(algorithm).full].concat()
}

/// What stands for an algorithm in the questions to a script, in the upper half of their second
/// byte.
#[must_use]
pub fn number(algorithm: Algorithm) -> u8 {
    algorithm.row().number
}

/// Which layouts a question may ask for, in the lower half of its second byte.
#[must_use]
pub fn layouts(algorithm: Algorithm) -> &'static [u8] {
    if algorithm.row().is_log { &[0, 1, 2] } else { &[0] }
}

/// What stands for an algorithm in stored keys.
#[must_use]
pub fn tag(algorithm: Algorithm) -> &'static str {
    algorithm.row().tag
}

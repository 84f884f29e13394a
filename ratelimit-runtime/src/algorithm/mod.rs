//! The algorithms: a folder and a row of one table for each.
//!
//! A folder has pure functions of state, time and cost, without I/O, which the memory store applies
//! under a lock, and beside them `script.lua`, by which Redis computes equal results. Both use
//! integer arithmetic of microseconds and whole costs, divided and rounded as stated. Code that
//! several algorithms share has a folder of its own (`counter/`).

pub(crate) mod bucket;
pub(crate) mod counter;
mod demand;
pub(crate) mod fixed_window;
#[cfg(feature = "redis")]
mod lua;
pub(crate) mod sliding_counter;
pub(crate) mod sliding_window;
mod state;
mod status;

pub(crate) use self::counter::Counters;
pub(crate) use self::demand::{Demand, Reserves};
#[cfg(feature = "redis")]
pub(crate) use self::lua::Lua;
pub(crate) use self::state::{AlgorithmState, Settlement, Taken};
pub(crate) use self::status::{RESERVED_WAIT, Standing};
#[cfg(feature = "redis")]
pub(crate) use self::{bucket as leaky_bucket, bucket as token_bucket};

/// The table of algorithms: passes its rows to the macro `$then`, after `$with`. Nothing else in
/// the crate lists the algorithms: code that needs all of them is generated from these rows.
///
/// A row has the documentation of a variant of [`Algorithm`](crate::Algorithm) and its name; the
/// name of its folder, which attributes and configurations write; the type of a key's state in the
/// memory store; and the fields of `rule::algorithm::Row`, `is_log` first. The folder has the
/// constant `SCRIPT`.
#[doc(hidden)]
#[macro_export]
macro_rules! __algorithms {
    ($($then:tt)::+ $(, $with:tt)?) => {
        $($then)::+! {
            $($with)?
            /// A log of every admission: exact, at most `max` in any window.
            #[default]
            SlidingWindow sliding_window(sliding_window::Log) {
                is_log: true,
                has_burst: false,
                windows: 1,
                tag: "sw",
                number: 1,
            }
            /// Two counters, the previous window's weighted: O(1) memory; up to `2·max − 1` in an
            /// interval of one window.
            SlidingCounter sliding_counter(Counters<sliding_counter::SlidingCounter>) {
                is_log: false,
                has_burst: false,
                windows: 2,
                tag: "sc",
                number: 3,
            }
            /// One counter per window, which the first call begins: up to `2·max` in an interval of
            /// one window.
            FixedWindow fixed_window(Counters<fixed_window::FixedWindow>) {
                is_log: false,
                has_burst: false,
                windows: 1,
                tag: "fw",
                number: 2,
            }
            /// A bucket of `burst` tokens, refilled at `max` per window: up to `burst + max` in an
            /// interval of one window.
            TokenBucket token_bucket(Counters<bucket::Bucket>) {
                is_log: false,
                has_burst: true,
                windows: 1,
                tag: "tb",
                number: 4,
            }
            /// The generic cell rate algorithm (GCRA): `max` per window evenly, `burst` at once; up
            /// to `burst + max` in an interval of one window.
            LeakyBucket leaky_bucket(Counters<bucket::Bucket>) {
                is_log: false,
                has_burst: true,
                windows: 1,
                tag: "lb",
                number: 5,
            }
        }
    };
}

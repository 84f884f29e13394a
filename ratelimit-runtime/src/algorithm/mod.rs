//! The algorithms: pure functions of (state, now, cost), one file each, without I/O.
//!
//! The memory store applies them under a lock; the Redis scripts say the same on the server, in the same integer
//! arithmetic: microseconds, whole costs, products of 128 bits divided and rounded as stated.
//!
//! An algorithm sees a clock that never steps back and a state that has not expired: the store's bucket sees to both.

mod arithmetic;
mod counters;
mod fixed_window;
mod leaky_bucket;
mod low_water;
mod question;
mod reservations;
mod sliding_counter;
mod sliding_window;
mod state;
mod status;
mod token_bucket;

pub(crate) use self::counters::Counters;
pub(crate) use self::fixed_window::FixedWindow;
pub(crate) use self::leaky_bucket::LeakyBucket;
pub(crate) use self::question::Question;
pub(crate) use self::sliding_counter::SlidingCounter;
pub(crate) use self::sliding_window::Log;
pub(crate) use self::state::AlgorithmState;
pub(crate) use self::status::{RESERVED_WAIT, Standing};
pub(crate) use self::token_bucket::TokenBucket;

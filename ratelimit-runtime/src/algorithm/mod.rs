//! The algorithms: pure functions of (state, now, cost), one file each, without I/O.
//!
//! The memory store applies them under a lock; the Redis scripts say the same on the server, in the same integer
//! arithmetic: microseconds, whole costs, products of 128 bits divided and rounded as stated.
//!
//! An algorithm sees a clock that never steps back and a state that has not expired: [`Bucket`] sees to both.

mod arithmetic;
mod block;
mod bucket;
mod counters;
mod fixed_window;
mod leaky_bucket;
mod low_water;
mod reservations;
mod sliding_counter;
mod sliding_window;
mod state;
mod status;
mod token_bucket;

pub(crate) use bucket::Bucket;

//! The algorithms: pure functions of (state, now, cost), one file each, without I/O.
//!
//! The memory store applies them under a lock; the Redis scripts say the same on the server.

mod sliding_window;

pub(crate) use sliding_window::Log;

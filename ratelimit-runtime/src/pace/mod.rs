//! The pauses and turns of this crate: how a task gives way to others, and how long it waits before
//! it tries again.
//!
//! They rest on how tokio schedules tasks, which no document of tokio promises. So they stand in
//! one place, each with its reason, and tests say that each number of turns is enough.

#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "only connections begin anew")
)]
mod backoff;
mod line;
#[cfg(feature = "redis")]
mod yields;

#[cfg(all(test, feature = "redis"))]
mod tests;

pub(crate) use self::backoff::Backoff;
pub(crate) use self::line::{is_due, poll_give_way, poll_slice};
#[cfg(feature = "redis")]
pub(crate) use self::yields::{BETWEEN_CALLS, CALLERS_RETURN, REPLIES_ARRIVE, SOCKETS_ARE_READ};

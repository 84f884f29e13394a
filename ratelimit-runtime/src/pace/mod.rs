//! The pauses and turns of this crate: how a task gives way to others, and how long it waits before
//! the next attempt.
//!
//! They rest on how tokio schedules tasks, which its documentation does not promise. So they are in
//! one place, each with its reason, and tests check that each number of turns is enough.

#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "only connections begin anew")
)]
mod backoff;
mod line;
mod timeout;
#[cfg(feature = "redis")]
mod yields;

#[cfg(all(test, feature = "redis"))]
mod tests;

pub(crate) use self::backoff::Backoff;
#[cfg(feature = "redis")]
pub(crate) use self::line::has_kept_thread;
pub(crate) use self::line::{give_way, is_due, poll_slice};
pub(crate) use self::timeout::{Elapsed, can_wait, runtime, timeout, timeout_at};
#[cfg(feature = "redis")]
pub(crate) use self::yields::{CALLERS_RETURN, READY_TASKS_RUN, REPLIES_ARRIVE, SOCKETS_ARE_READ};

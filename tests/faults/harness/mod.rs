//! What a fault does to callers, and how that is put on record.
//!
//! A *case* is an async function that starts servers of its own, keeps a [`Load`] on them, brings a
//! fault about, and gives a [`Row`] of the table (or several). Where a fault begins, lasts and
//! ends, and no more is to be said, it is a [`Fault`] of a table of them.
//!
//! [`Load::end`] holds every call to its timeout, the store to `max` in every window, every policy
//! to its promise, and the limiters to leaving no task behind. What is special to a fault the case
//! asserts itself, on the [`Account`].
//!
//! Cases run at the same time, in a thread and on a runtime of their own, so they may block. They
//! are listed in `main.rs`.

mod account;
mod fault;
mod left;
mod load;
mod log;
mod row;
mod runner;
mod witness;

pub(crate) use self::account::{Account, Answered, Call, most_in_a_window};
pub(crate) use self::fault::{Fault, World};
pub(crate) use self::left::nothing_is_left_on;
pub(crate) use self::load::{CALLERS, LIMIT, Load, POLICIES, TIMEOUT};
pub(crate) use self::log::Logged;
pub(crate) use self::row::{Row, Tally};
pub(crate) use self::runner::{Case, main, soak};
pub(crate) use self::witness::stalled_since;

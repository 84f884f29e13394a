//! The engine: turns one check, or a group of stacked ones, into decisions.
//!
//! ```text
//! check_builder  a rule and the values of a call become a check        parts     what an engine is made of
//! guard     the check of a call; waits if its rule says so  ─▶  wait  the queues of those who wait
//! group     several checks, all charged or none             ─▶  acquire  one check: the store, by its time limit
//! policies  limits by name, and which of them are in use
//! settle    what becomes of a charge once its call is over  ◀─  fallback  the answer when the store gives none
//! ```

mod acquire;
mod asked;
mod check;
mod check_builder;
mod fallback;
mod group;
mod guard;
mod parts;
mod policies;
mod registry;
mod settle;
mod time_limit;
mod wait;

pub(crate) use self::acquire::{change, peek};
pub(crate) use self::asked::Asked;
pub use self::check_builder::CheckBuilder;
pub(crate) use self::check_builder::with_check_by_hand;
pub(crate) use self::guard::{acquire, acquire_all, acquire_now, poll_cooperative};
pub(crate) use self::parts::{Engine, is_in_memory};
pub use self::settle::Reservations;
pub(crate) use self::settle::refund;

//! The engine: turns one check, or a group of stacked ones, into decisions.
//!
//! ```text
//! check/        a rule and the values of a call become a check
//! decide        the road of a check: its outcome at once, or the call that waits for one
//! call          a check that is kept across an `.await`; asks the store within its timeout
//! group         several checks, all charged or none
//! waiting/      the queues of callers that wait for a slot
//! outage        what answers where the store gives no answer
//! fallback      the memory in which limits go on meanwhile
//! outcome       what an answer means for the call; observes it
//! permits/      the places of calls in flight: taken, handed over, left
//! reservations/ commits, releases and refunds after the call
//! shared        what an engine is made of
//! ```

mod call;
mod check;
mod decide;
mod fallback;
mod group;
mod outage;
mod outcome;
mod permits;
mod reservations;
mod shared;
mod time_limit;
mod waiting;

pub(crate) use self::call::OwnedCall;
pub use self::check::CheckBuilder;
pub(crate) use self::check::{Unfit, place_by_hand, plain_check_by_hand, waits_in_vain, with_check_by_hand};
pub(crate) use self::decide::{acquire_all, decide, decide_now, finish, poll_cooperative, reserve};
pub(crate) use self::outcome::Decided;
pub use self::permits::CallPermits;
pub(crate) use self::permits::{in_flight, no_in_flight_limit, peek};
pub(crate) use self::reservations::refund;
pub use self::reservations::{Completion, Reservations};
pub(crate) use self::shared::{Engine, is_in_memory};

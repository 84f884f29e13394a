//! The engine: turns one check, or a group of stacked ones, into decisions.
//!
//! ```text
//! check/        what one check asks, apart from the engine that answers it
//! state/        the engine: what the clones of one limiter share
//! builder       a rule and the values of a call become a check
//! call          a check that is kept across an `.await`; asks the store within its timeout
//! outage        what answers where the store gives no answer
//! outcome       what an answer means for the call; observes it
//! reservations  commits, releases and refunds after the call
//! group/        several checks, all charged or none; places of calls in flight; waiting
//! decide        the road of a check: its outcome at once, or the call that waits for one
//! ```

mod builder;
mod call;
mod check;
mod decide;
mod group;
mod outage;
mod outcome;
mod reservations;
mod state;
mod time_limit;

pub use self::builder::CheckBuilder;
pub(crate) use self::call::OwnedCall;
pub(crate) use self::check::Check;
pub(crate) use self::decide::{acquire_all, cooperate, decide_now, finish, only, poll_cooperative, reserve};
pub use self::group::CallPermits;
pub(crate) use self::outcome::Outcome;
pub(crate) use self::reservations::refund;
pub use self::reservations::{Completion, Reservations};
pub(crate) use self::state::Engine;

//! The engine: turns one check, or a group of stacked ones, into decisions.
//!
//! ```text
//! check         what one check asks, apart from the engine that answers it; what an answer means
//!               for the call; observes it
//! state/        the engine: what the clones of one limiter share
//! builder       a rule and the values of a call become a check
//! call          a check that is kept across an `.await`; asks the store within its timeout
//! outage        what answers where the store gives no answer
//! reservations  commits, releases and refunds after the call
//! permit        the places of calls in flight
//! attempt       asks for several checks and their places once: all of them, or none
//! waiting       attempts again for as long as the rules that refuse wait
//! decide        the road of a check: its outcome at once, or the call that waits for one
//! ```

mod attempt;
mod builder;
mod call;
mod check;
mod decide;
mod outage;
mod permit;
mod reservations;
mod state;
mod waiting;

pub use self::builder::CheckBuilder;
pub(crate) use self::call::OwnedCall;
pub(crate) use self::check::{Check, Outcome};
pub(crate) use self::decide::{
    acquire_all, cooperate, decide_now, finish, only, poll_cooperative, reserve,
};
pub use self::permit::CallPermits;
pub(crate) use self::reservations::refund;
pub use self::reservations::{Completion, Reservations};
pub(crate) use self::state::Engine;

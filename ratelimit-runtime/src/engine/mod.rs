//! The engine: turns one check, or a stack of checks, into decisions.
//!
//! ```text
//! bound     a rule on one limiter: made once, looked up by each call
//! check     one call's bound rule, key and cost, and the meaning of an answer for the call
//! state/    the engine: state that the clones of one limiter share
//! bind      finds the bound form of a rule, or makes it
//! timeout   waits for the store until the timeout of a check
//! outage    chooses the answer where the store gives none
//! permit    a call in flight
//! part      a check that is kept across an `.await`
//! inquiry   a part's question, and a look at the answer that charges nothing
//! charge    commits, releases and refunds after the call
//! attempt/  asks for a stack once: all of it is charged, or nothing
//! waiting   attempts again for as long as the rules that refuse wait
//! decide    the stages of a call: its outcome at once, or the future that waits for it
//! builder   makes a check of a rule and the values of a call
//! ```

mod attempt;
mod bind;
mod bound;
mod builder;
mod charge;
mod check;
mod decide;
mod inquiry;
mod outage;
mod part;
mod permit;
mod state;
mod timeout;
mod waiting;

pub use self::builder::CheckBuilder;
pub(crate) use self::charge::refund;
pub use self::charge::{Completion, Reservations};
pub(crate) use self::check::{Check, Conclusion};
pub(crate) use self::decide::{
    Admitted, acquire, cooperate, cooperating, decide_later, decide_now, give_way_if,
};
pub(crate) use self::part::Part;
pub use self::permit::CallPermits;
pub(crate) use self::state::Engine;

//! [`AlgorithmState`]: what every algorithm does with what it keeps.

use smallvec::SmallVec;

use super::question::Question;
use super::status::LimitStatus;

pub(crate) type Statuses = SmallVec<[LimitStatus; 2]>;

/// The state of one key, for all limits of the question. `now` never steps back, and the state has not expired.
pub(crate) trait AlgorithmState {
    /// What the limits say to a call of `cost`.
    fn status(&mut self, question: &Question<'_>, cost: u64, now: u64) -> Statuses;

    /// Charges every limit; returns the ticket that names the charge.
    fn charge(&mut self, question: &Question<'_>, now: u64) -> u64;

    /// Counts the cost against every limit until it is committed or released; returns the ticket.
    fn reserve(&mut self, question: &Question<'_>, now: u64) -> u64;

    /// How long the state matters from now on, after a charge.
    fn life(&self, question: &Question<'_>, now: u64) -> u64;

    /// Gives back a charge; says whether anything of it was left.
    fn refund(&mut self, question: &Question<'_>, ticket: u64, now: u64) -> bool;

    /// Makes a reservation a charge; says whether it was there.
    fn commit(&mut self, question: &Question<'_>, ticket: u64, now: u64) -> bool;

    /// Gives a reservation back; says whether it was there.
    fn release(&mut self, question: &Question<'_>, ticket: u64, now: u64) -> bool;

    /// A state that answers as this one does now, and the first ticket that this one has not given. A copy is small,
    /// whatever this state holds, and may count it for longer; nothing in it can be given back.
    fn copy(&mut self, question: &Question<'_>, now: u64) -> (Self, u64)
    where
        Self: Sized;
}

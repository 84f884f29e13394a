//! [`AlgorithmState`]: what every algorithm does with what it keeps.

use smallvec::SmallVec;

use super::status::LimitStatus;
use crate::store::Request;

pub(super) type Statuses = SmallVec<[LimitStatus; 2]>;

/// The state of one key, for all limits of the request. `now` never steps back, and the state has not expired.
pub(super) trait AlgorithmState {
    /// What the limits say to a call of `cost`.
    fn status(&mut self, request: &Request<'_>, cost: u64, now: u64) -> Statuses;

    /// Charges every limit; returns the ticket that names the charge.
    fn charge(&mut self, request: &Request<'_>, now: u64) -> u64;

    /// Counts the cost against every limit until it is committed or released; returns the ticket.
    fn reserve(&mut self, request: &Request<'_>, now: u64) -> u64;

    /// How long the state matters from now on, after a charge.
    fn life(&self, request: &Request<'_>, now: u64) -> u64;

    /// Gives back a charge; says whether anything of it was left.
    fn refund(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool;

    /// Makes a reservation a charge; says whether it was there.
    fn commit(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool;

    /// Gives a reservation back; says whether it was there.
    fn release(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool;

    /// A state that answers as this one does now, and the first ticket that this one has not given. A copy is small,
    /// whatever this state holds, and may count it for longer; nothing in it can be given back.
    fn copy(&mut self, request: &Request<'_>, now: u64) -> (Self, u64)
    where
        Self: Sized;
}

//! [`AlgorithmState`]: what every algorithm does with what it keeps.

use smallvec::SmallVec;

use super::demand::Demand;
use super::status::{LimitStatus, Standing};

/// What became of an actual cost that was charged whether the limits admit it or not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committed {
    /// How much is too much to be charged.
    pub(crate) dropped: u64,
    /// Whether anything was charged at this time.
    pub(crate) charged_now: bool,
}

/// The state of one key, for all limits of the demand. `now` never steps back, and the state has
/// not expired.
pub(crate) trait AlgorithmState: Default {
    /// Whether a charge is kept with its time. Else what is committed or given back brings
    /// everything to that moment.
    const KEEPS_TIMES: bool;

    /// What the limits say to the call.
    fn standing(&mut self, demand: &Demand<'_>, now: u64) -> Standing;

    /// What each limit says to the call, in the order of the limits.
    fn statuses(&mut self, demand: &Demand<'_>, now: u64) -> SmallVec<[LimitStatus; 1]>;

    /// Whether anything is reserved.
    fn reserves(&self, demand: &Demand<'_>, now: u64) -> bool;

    /// How long the call would wait if all that is reserved were released now. The limits have been
    /// asked for their [`standing`](Self::standing) at `now`.
    fn wait_if_released(&self, demand: &Demand<'_>, now: u64) -> u64;

    /// How long until a limit is whole again. It has been asked for its
    /// [`standing`](Self::standing) at `now`.
    fn reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> u64;

    /// Charges every limit; returns the ticket that names the charge. The limits have been asked
    /// for their [`standing`](Self::standing) at `now`, and admit the call: `remaining` is now less
    /// by its cost.
    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64;

    /// Counts the cost against every limit until it is committed or released; returns the ticket.
    /// The same holds.
    fn reserve(&mut self, demand: &Demand<'_>, now: u64) -> u64;

    /// How long the state matters from now on, after a charge.
    fn life(&self, demand: &Demand<'_>, now: u64) -> u64;

    /// [`life`](Self::life), and after it [`reset`](Self::reset), which for a single limit is
    /// mostly the same.
    #[inline]
    fn life_and_reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> (u64, u64) {
        (self.life(demand, now), self.reset(demand, limit, now))
    }

    /// Gives back a charge; says whether anything of it was left.
    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool;

    /// Makes a reservation a charge; says whether it was there.
    fn commit(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool;

    /// Makes a reservation a charge of what it did cost, beyond the limits if need be; `None` if it
    /// was not there.
    fn commit_actual(&mut self, demand: &Demand<'_>, ticket: u64, actual: u64, now: u64) -> Option<Committed>;

    /// Charges `cost` whether the limits admit it or not, until twice what each admits at once is
    /// used; what is more is dropped.
    fn charge_beyond(&mut self, demand: &Demand<'_>, cost: u64, now: u64) -> Committed;

    /// Gives a reservation back; says whether it was there.
    fn release(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool;

    /// A state that answers as this one does now, and the first ticket that this one has not given.
    /// A copy is small, whatever this state holds, and may count it for longer; nothing in it can
    /// be given back.
    fn copy(&mut self, demand: &Demand<'_>, now: u64) -> (Self, u64);

    /// Makes it a new state.
    fn clear(&mut self);
}

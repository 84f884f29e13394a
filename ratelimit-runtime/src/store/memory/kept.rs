//! [`Kept`]: what one key has used, as its algorithm keeps it, with what holds for all algorithms:
//! a clock that never steps back, the expiry, and the block.

use super::block::Block;
use crate::algorithm::{AlgorithmState, RESERVED_WAIT, Settlement, Standing};
use crate::store::request::{Request, Reserves};
use crate::store::verdict::{Settled, Verdict};

/// The state of one key under one algorithm. All times are absolute: where the clock steps back,
/// what was written lasts until the clock has caught up.
#[derive(Debug)]
pub(in crate::store) struct Kept<S> {
    state: S,
    /// The time of the newest write. An earlier clock has stepped back, and is read as standing
    /// still at this time, so that nothing is admitted twice.
    newest: u64,
    /// When what was admitted is void. A block may last longer.
    expires_at: u64,
    /// Few keys are ever blocked.
    block: Option<Box<Block>>,
    /// Of a state that was copied from a shared one.
    copied: Option<Box<Copied>>,
}

/// What is known of a copied state, apart from what strangers used.
#[derive(Debug, Clone, Copy)]
struct Copied {
    since: u64,
    /// When what strangers used is void.
    until: u64,
    /// What this key was charged or has reserved since: the most that it can be given back.
    own: u64,
}

/// The time of a call.
#[derive(Clone, Copy)]
struct Time {
    /// By the clock as it is.
    now: u64,
    /// The time that never steps back, or the clock as it is where each unit has its own time.
    at: u64,
    /// Whether what was admitted may count.
    is_live: bool,
}

impl<S: Default> Default for Kept<S> {
    fn default() -> Self {
        Self { state: S::default(), newest: 0, expires_at: 0, block: None, copied: None }
    }
}

impl<S: AlgorithmState> Kept<S> {
    /// A state that answers as this one does now, for a key that has shared it with others. Blocks
    /// are not copied, and nothing can be given back that was used before.
    pub(super) fn copy(&mut self, request: &Request<'_>, now: u64) -> Self {
        let Time { at, .. } = self.advance(now);
        let copied = Copied { since: at, until: self.expires_at, own: 0 };
        Self {
            state: self.state.copy(&request.demand(), at),
            newest: self.newest,
            expires_at: self.expires_at,
            block: None,
            copied: Some(Box::new(copied)),
        }
    }

    #[inline]
    pub(super) fn acquire(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(now);
        let standing = self.standing(request, time);
        if standing.status.wait == 0 && request.cost() > 0 && self.blocked_for(time) == 0 {
            return self.admit(request, &standing, time);
        }
        // A key is not blocked for what strangers used, nor for what is only reserved.
        if standing.status.wait > 0
            && request.block_us() > 0
            && self.copied.is_none()
            && self.blocked_for(time) == 0
            && !self.only_reservations_refuse(request, time)
        {
            self.offend(request, time);
        }
        self.verdict(request, &standing, time)
    }

    /// What [`acquire`](Self::acquire) would say.
    pub(super) fn peek(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(now);
        let standing = self.standing(request, time);
        self.verdict(request, &standing, time)
    }

    /// What the limits say to the request.
    #[inline]
    fn standing(&mut self, request: &Request<'_>, time: Time) -> Standing {
        if time.is_live {
            return self.state.standing(&request.demand(), time.at);
        }
        Self::standing_of_none(request, time)
    }

    /// What is void is left alone until something is written: the clock may step back to before
    /// that.
    #[cold]
    fn standing_of_none(request: &Request<'_>, time: Time) -> Standing {
        S::default().standing(&request.demand(), time.at)
    }

    /// Whether nothing but what is reserved by `count` refuses the request.
    #[cold]
    fn only_reservations_refuse(&self, request: &Request<'_>, time: Time) -> bool {
        let demand = request.demand();
        time.is_live
            && self.state.reserves(&demand, time.at)
            && self.state.standing_behind_reservations(&demand, time.at).1
    }

    /// Charges or reserves what the limits admit.
    #[inline]
    fn admit(&mut self, request: &Request<'_>, standing: &Standing, time: Time) -> Verdict {
        let (demand, at) = (request.demand(), time.at);
        if self.block.is_some() {
            self.forget_block(request, time);
        }
        if !time.is_live {
            self.begin_anew();
        }
        let ticket = match request.reserves() {
            Reserves::Nothing => self.state.charge(&demand, at),
            Reserves::Estimate => self.state.charge_estimate(&demand, at),
            Reserves::Cost => self.state.reserve(&demand, at),
        };
        let (life, reset) = self.state.life_and_reset(&demand, standing.limit, at);
        (self.newest, self.expires_at) = (at, at.saturating_add(life));
        if let Some(copied) = &mut self.copied {
            copied.own = copied.own.saturating_add(request.cost());
        }
        let remaining = standing.status.remaining.saturating_sub(request.cost());
        let reset_after_us = Self::by_the_clock(reset, time);
        Verdict { limit_index: standing.limit, remaining, reset_after_us, ticket, ..Verdict::admitted() }
    }

    /// Notes that something was settled or given back: counters have been brought to this time.
    fn written(&mut self, request: &Request<'_>, Time { at, .. }: Time) {
        self.block.take_if(|block| block.is_void(at));
        let life = self.state.life(&request.demand(), at);
        // Where nothing is left, the clock may step back as it likes.
        (self.newest, self.expires_at) = if life == 0 { (0, 0) } else { (at, at.saturating_add(life)) };
    }

    /// Whether a charge is this key's own, and not a stranger's.
    fn is_own(&self, request: &Request<'_>, ticket: u64) -> bool {
        self.copied.as_ref().is_none_or(|copied| ticket >= copied.since && request.cost() <= copied.own)
    }

    pub(super) fn refund(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        let time @ Time { at, is_live, .. } = self.advance(now);
        let done = is_live && self.is_own(request, ticket) && self.state.refund(&request.demand(), ticket, at);
        if done {
            if let Some(copied) = &mut self.copied {
                copied.own -= request.cost();
            }
            self.written(request, time);
        }
        done
    }

    /// Ends a reservation.
    pub(super) fn settle(&mut self, request: &Request<'_>, ticket: u64, actual: u64, now: u64) -> Settled {
        let time @ Time { at, is_live, .. } = self.advance(now);
        if !self.is_own(request, ticket) {
            return Settled::default();
        }
        let settlement =
            Settlement { ticket, is_estimate: request.is_estimate(), actual, is_sent_again: request.is_sent_again() };
        let outcome = if is_live {
            self.state.settle(&request.demand(), &settlement, at)
        } else {
            // What is void is left alone unless something is written.
            let mut anew = S::default();
            let outcome = anew.settle(&request.demand(), &settlement, at);
            if outcome.changed {
                self.begin_anew();
                self.state = anew;
            }
            outcome
        };
        if let Some(copied) = &mut self.copied {
            let reserved = if outcome.was_open { request.cost() } else { 0 };
            copied.own = copied.own.saturating_sub(reserved).saturating_add(actual - outcome.dropped);
        }
        if outcome.changed {
            self.written(request, time);
        }
        Settled::new(outcome.was_open, outcome.dropped)
    }

    pub(super) fn block(&mut self, request: &Request<'_>, duration: u64, now: u64) {
        let Time { at, is_live, .. } = self.advance(now);
        if !is_live {
            self.begin_anew();
        }
        self.block = Some(Box::new(Block::by_hand(duration, self.block.as_deref(), request.block_duration(), at)));
    }

    /// Blocks the key because its limits have refused it.
    fn offend(&mut self, request: &Request<'_>, Time { at, is_live, .. }: Time) {
        if !is_live {
            self.begin_anew();
        }
        self.block = Some(Box::new(Block::of_offence(request.block_duration(), self.block.as_deref(), at)));
    }

    /// Ends the block, and forgets all before it; says whether one lasted.
    pub(super) fn unblock(&mut self, now: u64) -> bool {
        let Time { at, is_live, .. } = self.advance(now);
        let block = self.block.take();
        if block.is_some() && !is_live {
            self.begin_anew();
        }
        block.is_some_and(|block| block.left(at) > 0)
    }

    /// A block that is over stays over. What the next one doubles is left.
    #[cold]
    fn forget_block(&mut self, request: &Request<'_>, Time { at, .. }: Time) {
        self.block.take_if(|block| block.strikes(request.block_duration(), at) == 0);
    }

    /// How long a block goes on, by the clock as it is.
    #[inline]
    fn blocked_for(&self, Time { now, at, .. }: Time) -> u64 {
        let left = self.block.as_ref().map_or(0, |block| block.left(at));
        if left == 0 { 0 } else { left + (at - now) }
    }

    /// What a key would have anew if its state were dropped: the share used of its fullest limit,
    /// in 2,048ths. `None` for what has to be kept: a block, also a past one that makes the next
    /// one longer, a reservation, or more than half of a limit used. `request` costs nothing.
    pub(super) fn loss(&mut self, request: &Request<'_>, now: u64) -> Option<u64> {
        let Time { at, is_live, .. } = self.advance(now);
        if self.is_block_kept(at) {
            return None;
        }
        if !is_live {
            return Some(0);
        }
        let demand = request.demand();
        if self.state.reserves(&demand, at) {
            return None;
        }
        let statuses = self.state.statuses(&demand, at);
        request.limits().iter().zip(statuses).try_fold(0, |fullest, (limit, status)| {
            let capacity = request.algorithm().capacity(limit);
            let used = capacity.saturating_sub(status.remaining);
            // A capacity has 52 bits.
            (capacity > 0 && 2 * used <= capacity).then(|| (2_048 * used / capacity).max(fullest))
        })
    }

    /// Whether nothing of the state counts any more.
    pub(super) fn is_void(&self, now: u64) -> bool {
        now >= self.expires_at && !self.is_block_kept(now)
    }

    fn is_block_kept(&self, now: u64) -> bool {
        self.block.as_ref().is_some_and(|block| !block.is_void(now))
    }

    /// Nothing is left but perhaps a block.
    #[cold]
    fn begin_anew(&mut self) {
        self.state.clear();
        (self.newest, self.expires_at, self.copied) = (0, 0, None);
    }

    #[inline]
    fn advance(&mut self, now: u64) -> Time {
        if now >= self.expires_at {
            return Time { now, at: now, is_live: false };
        }
        if self.copied.as_ref().is_some_and(|copied| now >= copied.until) {
            self.copied = None;
        }
        let at = if S::KEEPS_TIMES { now } else { now.max(self.newest) };
        Time { now, at, is_live: true }
    }

    /// A duration from the time that the algorithm was given, as one from the clock as it is.
    #[inline]
    fn by_the_clock(duration: u64, Time { now, at, .. }: Time) -> u64 {
        if duration == 0 { 0 } else { duration + (at - now) }
    }

    /// The verdict that charges nothing.
    #[inline]
    fn verdict(&self, request: &Request<'_>, standing: &Standing, time: Time) -> Verdict {
        let blocked_for = self.blocked_for(time);
        let (demand, Time { now, at, is_live, .. }) = (request.demand(), time);
        let reserves = is_live && self.state.reserves(&demand, at);
        let mut standing = *standing;
        if reserves && standing.status.wait > 0 {
            (standing, _) = self.state.standing_behind_reservations(&demand, at);
        }
        let Standing { limit: limit_index, status } = standing;
        let reset = if is_live { self.state.reset(&demand, limit_index, at) } else { 0 };
        // By other limits than those of the newest write, a bucket would last longer than it does.
        let until_void = if is_live && !S::KEEPS_TIMES { self.expires_at.saturating_sub(now) } else { u64::MAX };
        let (mut wait, mut reset) = (Self::by_the_clock(status.wait, time), Self::by_the_clock(reset, time));
        if reserves {
            wait = wait.min(until_void.max(Self::by_the_clock(RESERVED_WAIT, time)));
        } else {
            (wait, reset) = (wait.min(until_void), reset.min(until_void));
        }
        let verdict = Verdict {
            allowed: status.wait == 0,
            limit_index,
            remaining: status.remaining,
            retry_after_us: wait.max(blocked_for),
            reset_after_us: reset.max(blocked_for),
            ..Verdict::admitted()
        };
        if blocked_for > 0 {
            return Verdict { allowed: false, remaining: 0, ..verdict }.by_block_for(blocked_for);
        }
        verdict
    }
}

//! [`Kept`]: what one key has used, as its algorithm keeps it, with what holds for all algorithms:
//! a clock that never steps back, the expiry, and the block.

use super::block::Block;
use crate::algorithm::{AlgorithmState, Committed, Standing};
use crate::store::request::Request;
use crate::store::verdict::Verdict;

/// The state of one key under one algorithm.
#[derive(Debug)]
pub(super) struct Kept<S> {
    state: S,
    /// The time of the newest admission, or of what was committed or refunded since. An earlier
    /// clock has stepped back, and is read as standing still at this time, so that nothing is
    /// admitted twice.
    newest: u64,
    /// When what was admitted is void, by the clock as it is. A block may last longer.
    expires_at: u64,
    /// Few keys are ever blocked.
    block: Option<Box<Block>>,
    /// The first ticket of this state: what has an earlier one is gone, with the state before.
    first_ticket: u64,
    /// Of a state that was copied from a shared one.
    copied: Option<Box<Copied>>,
}

/// What is known of a copied state, apart from what strangers used.
#[derive(Debug, Clone, Copy)]
struct Copied {
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
    /// The time that never steps back. Algorithms are given this one, and call it `now`: they know
    /// no other.
    at: u64,
    /// What a life is added to: `now`, but for a calendar period, which ends by the clock also
    /// where that has stepped back, `at`.
    life_from: u64,
    /// Whether what was admitted may count.
    is_live: bool,
}

impl<S: Default> Default for Kept<S> {
    fn default() -> Self {
        Self { state: S::default(), newest: 0, expires_at: 0, block: None, first_ticket: u64::MAX, copied: None }
    }
}

impl<S: AlgorithmState> Kept<S> {
    /// A state that answers as this one does now, for a key that has shared it with others. Blocks
    /// are not copied, and nothing can be given back that was used before.
    pub(super) fn copy(&mut self, request: &Request<'_>, now: u64) -> Self {
        let Time { at, .. } = self.advance(request, now);
        let (state, first_ticket) = self.state.copy(&request.demand(), at);
        Self {
            state,
            newest: self.newest,
            expires_at: self.expires_at,
            block: None,
            first_ticket,
            copied: Some(Box::new(Copied { until: self.expires_at, own: 0 })),
        }
    }

    #[inline]
    pub(super) fn acquire(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(request, now);
        let standing = self.standing(request, time);
        if standing.status.wait == 0 && request.cost() > 0 && self.blocked_for(now) == 0 {
            return self.admit(request, &standing, time);
        }
        let verdict = self.verdict(request, &standing, time);
        // A key is not blocked for what strangers used.
        if standing.status.wait > 0 && request.block_us() > 0 && !verdict.blocked && self.copied.is_none() {
            self.offend(request, now);
            return self.peek(request, now);
        }
        verdict
    }

    /// What [`acquire`](Self::acquire) would say.
    pub(super) fn peek(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(request, now);
        let standing = self.standing(request, time);
        self.verdict(request, &standing, time)
    }

    /// What the limits say to the request.
    #[inline]
    fn standing(&mut self, request: &Request<'_>, time: Time) -> Standing {
        if time.is_live {
            return self.state.standing(&request.demand(), time.at);
        }
        Self::standing_of_none(request, time.at)
    }

    /// What is void is left alone until something is written: the clock may step back to before
    /// that.
    #[cold]
    fn standing_of_none(request: &Request<'_>, at: u64) -> Standing {
        S::default().standing(&request.demand(), at)
    }

    /// Charges or reserves what the limits admit.
    #[inline]
    fn admit(&mut self, request: &Request<'_>, standing: &Standing, time: Time) -> Verdict {
        let (demand, Time { now, at, life_from, .. }) = (request.demand(), time);
        if self.block.is_some() {
            self.forget_block(request, now);
        }
        if !time.is_live {
            self.begin_anew();
        }
        let ticket =
            if request.is_reservation() { self.state.reserve(&demand, at) } else { self.state.charge(&demand, at) };
        let (life, reset) = self.state.life_and_reset(&demand, standing.limit, at);
        (self.newest, self.expires_at) = (at, life_from.saturating_add(life));
        self.first_ticket = self.first_ticket.min(ticket);
        if let Some(copied) = &mut self.copied {
            copied.own = copied.own.saturating_add(request.cost());
        }
        let remaining = standing.status.remaining.saturating_sub(request.cost());
        let reset_after_us = self.by_the_clock(reset, time);
        Verdict { limit_index: standing.limit, remaining, reset_after_us, ticket, ..Verdict::admitted() }
    }

    /// Notes that something was committed or given back: counters have been brought to this time.
    fn written(&mut self, request: &Request<'_>, Time { at, life_from, .. }: Time) {
        self.newest = at;
        self.expires_at = life_from.saturating_add(self.state.life(&request.demand(), at));
    }

    pub(super) fn refund(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        self.give_back(request, ticket, now, |state, at| state.refund(&request.demand(), ticket, at))
    }

    pub(super) fn release(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        self.give_back(request, ticket, now, |state, at| state.release(&request.demand(), ticket, at))
    }

    fn give_back(
        &mut self,
        request: &Request<'_>,
        ticket: u64,
        now: u64,
        work: impl FnOnce(&mut S, u64) -> bool,
    ) -> bool {
        let time @ Time { at, is_live, .. } = self.advance(request, now);
        let own = self.copied.as_ref().map_or(u64::MAX, |copied| copied.own);
        let there = is_live && ticket >= self.first_ticket && request.cost() <= own;
        let done = there && work(&mut self.state, at);
        if let Some(copied) = self.copied.as_mut().filter(|_| done) {
            copied.own -= request.cost();
        }
        if done && !S::KEEPS_TIMES {
            self.written(request, time);
        }
        done
    }

    pub(super) fn commit(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        let time @ Time { at, is_live, .. } = self.advance(request, now);
        let there = is_live && ticket >= self.first_ticket;
        let done = there && self.state.commit(&request.demand(), ticket, at);
        // A log keeps the time of the reservation; counters charge it now.
        if done && !S::KEEPS_TIMES {
            self.written(request, time);
        }
        done
    }

    /// Commits a reservation at what it did cost; gives what is too much to be charged.
    pub(super) fn commit_actual(&mut self, request: &Request<'_>, ticket: u64, actual: u64, now: u64) -> u64 {
        let time @ Time { at, is_live, .. } = self.advance(request, now);
        let demand = request.demand();
        let is_own = is_live && ticket >= self.first_ticket;
        let committed = if is_own { self.state.commit_actual(&demand, ticket, actual, at) } else { None };
        let reserved = if committed.is_some() { request.cost() } else { 0 };
        let Committed { dropped, charged_now } = match committed {
            Some(committed) => committed,
            // It was settled or reset, unless it is so old that nothing can be known of it.
            None if actual == 0 || at < ticket.saturating_add(demand.span()) => return 0,
            None => {
                if !is_live {
                    self.begin_anew();
                }
                self.first_ticket = self.first_ticket.min(at);
                self.state.charge_beyond(&demand, actual, at)
            }
        };
        if let Some(copied) = &mut self.copied {
            copied.own = copied.own.saturating_sub(reserved).saturating_add(actual - dropped);
        }
        if charged_now {
            self.written(request, time);
        }
        dropped
    }

    pub(super) fn block(&mut self, request: &Request<'_>, duration: u64, now: u64) {
        if !self.advance(request, now).is_live {
            self.begin_anew();
        }
        self.block = Some(Box::new(Block::by_hand(duration, self.block.as_deref(), request.block_duration(), now)));
    }

    /// Blocks the key because its limits have refused it.
    fn offend(&mut self, request: &Request<'_>, now: u64) {
        if !self.is_live(now) {
            self.begin_anew();
        }
        self.block = Some(Box::new(Block::of_offence(request.block_duration(), self.block.as_deref(), now)));
    }

    /// Ends the block, and forgets all before it; says whether one lasted.
    pub(super) fn unblock(&mut self, request: &Request<'_>, now: u64) -> bool {
        self.advance(request, now);
        self.block.take().is_some_and(|block| block.left(now) > 0)
    }

    /// A block that is over stays over. What the next one doubles is left.
    #[cold]
    fn forget_block(&mut self, request: &Request<'_>, now: u64) {
        self.block.take_if(|block| block.strikes(request.block_duration(), now) == 0);
    }

    #[inline]
    fn blocked_for(&self, now: u64) -> u64 {
        self.block.as_ref().map_or(0, |block| block.left(now))
    }

    /// What a key would have anew if its state were dropped: the share used of its fullest limit,
    /// in 2,048ths. `None` for what has to be kept: a block, also a past one that makes the next
    /// one longer, a reservation, or more than half of a limit used. `request` costs nothing.
    pub(super) fn loss(&mut self, request: &Request<'_>, now: u64) -> Option<u64> {
        let Time { at, is_live, .. } = self.advance(request, now);
        if self.is_block_kept(now) {
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
        !self.is_live(now) && !self.is_block_kept(now)
    }

    fn is_block_kept(&self, now: u64) -> bool {
        self.block.as_ref().is_some_and(|block| !block.is_void(now))
    }

    /// Nothing is left but perhaps a block.
    #[cold]
    fn begin_anew(&mut self) {
        self.state.clear();
        (self.newest, self.expires_at, self.first_ticket, self.copied) = (0, 0, u64::MAX, None);
    }

    /// Whether what was admitted may count.
    #[inline]
    fn is_live(&self, now: u64) -> bool {
        now < self.expires_at
    }

    /// Brings block and expiry to `now`.
    #[inline]
    fn advance(&mut self, request: &Request<'_>, now: u64) -> Time {
        if let Some(block) = &mut self.block {
            block.advance(now);
        }
        if !self.is_live(now) {
            return Time { now, at: now, life_from: now, is_live: false };
        }
        if self.copied.as_ref().is_some_and(|copied| now >= copied.until) {
            self.copied = None;
        }
        if now < self.newest {
            // The clock stepped back. What is kept lives no longer than it would if it had been
            // written now.
            let latest = now.saturating_add(request.horizon_us());
            self.expires_at = self.expires_at.min(latest);
            let life_from = if request.has_calendar() { self.newest.min(latest) } else { now };
            return Time { now, at: self.newest, life_from, is_live: true };
        }
        Time { now, at: now, life_from: now, is_live: true }
    }

    /// What is `duration` by the time that never steps back, and no longer than the state lives.
    #[inline]
    fn by_the_clock(&self, duration: u64, Time { now, at, .. }: Time) -> u64 {
        if duration == 0 { 0 } else { (duration + (at - now)).min(self.expires_at.saturating_sub(now)) }
    }

    /// The verdict that charges nothing.
    #[inline]
    fn verdict(&self, request: &Request<'_>, standing: &Standing, time: Time) -> Verdict {
        let Standing { limit, status, .. } = *standing;
        let reset = if time.is_live { self.state.reset(&request.demand(), limit, time.at) } else { 0 };
        let (wait, reset) = (self.by_the_clock(status.wait, time), self.by_the_clock(reset, time));
        let blocked_for = self.blocked_for(time.now);
        let verdict = Verdict {
            allowed: status.wait == 0,
            limit_index: limit,
            remaining: status.remaining,
            retry_after_us: wait.max(blocked_for),
            reset_after_us: reset.max(blocked_for),
            ..Verdict::admitted()
        };
        if blocked_for > 0 {
            return Verdict { allowed: false, ..verdict }.by_block_for(blocked_for);
        }
        if wait > 0 && time.is_live && self.state.reserves(&request.demand(), time.at) {
            let released = self.state.wait_if_released(&request.demand(), time.at);
            return verdict.behind_reservations(self.by_the_clock(released, time));
        }
        verdict
    }
}

//! [`KeyState`]: the state of one key under its algorithm, with the parts that all algorithms
//! share: a clock that never steps back, the expiry, and the block.

use super::block::Block;
use crate::algorithm::Reserves;
use crate::algorithm::{AlgorithmState, RESERVED_WAIT, Settlement, Standing, Taken};
use crate::store::request::Request;
use crate::store::verdict::{Settled, Verdict};

/// The state of one key under one algorithm. All times are absolute: if the clock steps back, the
/// state lasts until the clock has caught up.
#[derive(Debug)]
pub(in crate::store) struct KeyState<S> {
    /// The algorithm's state, which knows the time of the newest write. A clock before that has
    /// stepped back, and is taken to stand still at that time, so that nothing is admitted twice.
    state: S,
    /// When all charges are void, in microseconds. A block may last longer.
    expires_at: u64,
    /// The block, which few keys ever have.
    block: Option<Box<Block>>,
}

/// The time of a call.
#[derive(Clone, Copy)]
struct CallTime {
    /// The time of the clock.
    now: u64,
    /// The time that never steps back; the clock's where each unit has its own time.
    at: u64,
    /// `true` if earlier charges may count.
    is_live: bool,
}

impl<S: Default> Default for KeyState<S> {
    fn default() -> Self {
        Self {
            state: S::default(),
            expires_at: 0,
            block: None,
        }
    }
}

impl<S: AlgorithmState> KeyState<S> {
    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    pub(super) fn acquire(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let is_plain =
            self.block.is_none() && request.reserves == Reserves::Nothing && request.cost() > 0;
        if !is_plain {
            return self.acquire_step_by_step(request, now);
        }
        if now >= self.expires_at {
            // A store is asked for no more than its limits admit at once: a new state admits it.
            self.begin_anew();
        }
        let time = CallTime {
            now,
            at: now.max(self.state.newest()),
            is_live: true,
        };
        let taken = self.state.take(&request.demand(), time.at);
        if taken.ticket > 0 {
            self.admitted(request, &taken, time)
        } else if request.block.first_us() > 0 || self.state.reserves(&request.demand(), time.at) {
            self.refuse(request, &taken, time)
        } else {
            self.refused(&taken.standing, taken.reset, time)
        }
    }

    #[inline(never)]
    fn acquire_step_by_step(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(now);
        let standing = self.standing(request, time);
        if standing.status.wait == 0 && request.cost() > 0 && self.blocked_for(time) == 0 {
            return self.admit(request, standing, time);
        }
        self.decline(request, standing, time)
    }

    /// The verdict and the block of [`acquire`](Self::acquire), without a charge.
    pub(super) fn offend(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(now);
        let standing = self.standing(request, time);
        self.decline(request, standing, time)
    }

    /// The verdict without a charge. Sets a block if limits refuse.
    fn decline(&mut self, request: &Request<'_>, standing: Standing, time: CallTime) -> Verdict {
        let reset = self.reset(request, &standing, time);
        if standing.status.wait == 0 || self.blocked_for(time) > 0 {
            return self.verdict(request, &standing, reset, time);
        }
        self.refuse(
            request,
            &Taken {
                standing,
                ticket: 0,
                life: 0,
                reset,
            },
            time,
        )
    }

    /// The verdict, and the block, if limits refuse and no block does.
    #[inline(never)]
    fn refuse(&mut self, request: &Request<'_>, taken: &Taken, time: CallTime) -> Verdict {
        // Reservations alone do not block a key.
        if request.block.first_us() > 0 && !self.only_reservations_refuse(request, time) {
            let block = Block::of_offence(request.block, self.block.as_deref(), time.at);
            self.set_block(block, time);
        }
        self.verdict(request, &taken.standing, taken.reset, time)
    }

    /// The verdict of [`acquire`](Self::acquire), without a charge or a block.
    pub(super) fn peek(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(now);
        let standing = self.standing(request, time);
        self.verdict(
            request,
            &standing,
            self.reset(request, &standing, time),
            time,
        )
    }

    /// The standing of the limits for the request.
    fn standing(&mut self, request: &Request<'_>, time: CallTime) -> Standing {
        if time.is_live {
            return self.state.standing(&request.demand(), time.at);
        }
        // A void state is left alone until a write: the clock may step back to before its end.
        S::default().standing(&request.demand(), time.at)
    }

    /// The microseconds until the limit that decides is whole again, by the state's time.
    fn reset(&self, request: &Request<'_>, standing: &Standing, time: CallTime) -> u64 {
        if time.is_live {
            self.state.reset(&request.demand(), standing.limit, time.at)
        } else {
            0
        }
    }

    /// `true` if only reservations by `count` refuse the request.
    #[cold]
    fn only_reservations_refuse(&self, request: &Request<'_>, time: CallTime) -> bool {
        let demand = request.demand();
        time.is_live
            && self.state.reserves(&demand, time.at)
            && self.state.standing_behind_reservations(&demand, time.at).1
    }

    /// Charges or reserves the cost, which the limits admit.
    fn admit(&mut self, request: &Request<'_>, standing: Standing, time: CallTime) -> Verdict {
        let (demand, at) = (request.demand(), time.at);
        if self.block.is_some() {
            self.forget_block(request, time);
        }
        if !time.is_live {
            self.begin_anew();
        }
        let ticket = self.state.charge(&demand, at);
        let (life, reset) = (
            self.state.life(&demand, at),
            self.state.reset(&demand, standing.limit, at),
        );
        self.admitted(
            request,
            &Taken {
                standing,
                ticket,
                life,
                reset,
            },
            time,
        )
    }

    /// The verdict after the limits were charged.
    #[inline]
    fn admitted(&mut self, request: &Request<'_>, taken: &Taken, time: CallTime) -> Verdict {
        self.expires_at = time.at.saturating_add(taken.life);
        let Standing {
            limit: limit_index,
            status,
        } = taken.standing;
        let remaining = status.remaining.saturating_sub(request.cost());
        let reset_after_us = Self::by_the_clock(taken.reset, time);
        Verdict {
            limit_index,
            remaining,
            reset_after_us,
            ticket: taken.ticket,
            ..Verdict::admitted()
        }
    }

    /// Updates the expiry after a settlement or refund, which brought counters to this time.
    fn written(&mut self, request: &Request<'_>, CallTime { at, .. }: CallTime) {
        self.block.take_if(|block| block.is_void(at));
        let life = self.state.life(&request.demand(), at);
        // A state without charges sets no bound to a clock that steps back.
        self.expires_at = if life == 0 {
            0
        } else {
            at.saturating_add(life)
        };
    }

    pub(super) fn refund(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        let time @ CallTime { at, is_live, .. } = self.advance(now);
        let done = is_live && self.state.refund(&request.demand(), ticket, at);
        if done {
            self.written(request, time);
        }
        done
    }

    /// Ends a reservation.
    pub(super) fn settle(
        &mut self,
        request: &Request<'_>,
        ticket: u64,
        actual: u64,
        now: u64,
    ) -> Settled {
        let time @ CallTime { at, is_live, .. } = self.advance(now);
        let settlement = Settlement {
            ticket,
            is_estimate: request.is_estimate(),
            actual,
            is_sent_again: request.is_sent_again(),
        };
        let outcome = if is_live {
            self.state.settle(&request.demand(), &settlement, at)
        } else {
            // A void state is left alone unless the settlement changes something.
            let mut anew = S::default();
            let outcome = anew.settle(&request.demand(), &settlement, at);
            if outcome.changed {
                self.begin_anew();
                self.state = anew;
            }
            outcome
        };
        if outcome.changed {
            self.written(request, time);
        }
        Settled::new(outcome.was_open, outcome.dropped)
    }

    pub(super) fn block(&mut self, request: &Request<'_>, duration: u64, now: u64) {
        let time = self.advance(now);
        let block = Block::by_hand(duration, self.block.as_deref(), request.block, time.at);
        self.set_block(block, time);
    }

    fn set_block(&mut self, block: Block, time: CallTime) {
        if !time.is_live {
            self.begin_anew();
        }
        self.block = Some(Box::new(block));
    }

    /// Ends the block and forgets offences. `true` if a block lasted.
    pub(super) fn unblock(&mut self, now: u64) -> bool {
        let CallTime { at, is_live, .. } = self.advance(now);
        let block = self.block.take();
        if block.is_some() && !is_live {
            self.begin_anew();
        }
        block.is_some_and(|block| block.left(at) > 0)
    }

    /// Drops a block that has ended, unless its offences count for the next one.
    #[cold]
    fn forget_block(&mut self, request: &Request<'_>, CallTime { at, .. }: CallTime) {
        self.block
            .take_if(|block| block.strikes(request.block, at) == 0);
    }

    /// How long the block goes on by the clock, in microseconds.
    #[inline]
    fn blocked_for(&self, CallTime { now, at, .. }: CallTime) -> u64 {
        let left = self.block.as_ref().map_or(0, |block| block.left(at));
        if left == 0 { 0 } else { left + (at - now) }
    }

    /// The share of its fullest limit that a key would gain if its state were dropped, in 2,048ths.
    /// `None` if the state has to be kept: it has a block, also a past one that makes the next one
    /// longer, or a reservation, or has used more than half of a limit. `request` costs nothing.
    pub(super) fn loss(&mut self, request: &Request<'_>, now: u64) -> Option<u64> {
        let CallTime { at, is_live, .. } = self.advance(now);
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
        request
            .limits()
            .iter()
            .zip(statuses)
            .try_fold(0, |fullest, (limit, status)| {
                let capacity = request.algorithm().capacity(limit);
                let used = capacity.saturating_sub(status.remaining);
                // A capacity has 52 bits.
                (capacity > 0 && 2 * used <= capacity)
                    .then(|| (2_048 * used / capacity).max(fullest))
            })
    }

    /// `true` if no charge and no block of the state counts any more.
    pub(super) fn is_void(&self, now: u64) -> bool {
        now >= self.expires_at && !self.is_block_kept(now)
    }

    fn is_block_kept(&self, now: u64) -> bool {
        self.block.as_ref().is_some_and(|block| !block.is_void(now))
    }

    /// Clears the state except for the block.
    #[inline]
    fn begin_anew(&mut self) {
        self.state.clear();
        self.expires_at = 0;
    }

    #[inline]
    fn advance(&self, now: u64) -> CallTime {
        if now >= self.expires_at {
            return CallTime {
                now,
                at: now,
                is_live: false,
            };
        }
        let at = now.max(self.state.newest());
        CallTime {
            now,
            at,
            is_live: true,
        }
    }

    /// A duration from `at` on, measured from `now` on.
    #[inline]
    fn by_the_clock(duration: u64, CallTime { now, at, .. }: CallTime) -> u64 {
        if duration == 0 {
            0
        } else {
            duration + (at - now)
        }
    }

    /// The verdict if limits refuse, and nothing is reserved.
    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    fn refused(&self, standing: &Standing, reset: u64, time: CallTime) -> Verdict {
        let until_void = self.until_void(time);
        Verdict {
            allowed: false,
            limit_index: standing.limit,
            remaining: standing.status.remaining,
            retry_after_us: Self::by_the_clock(standing.status.wait, time).min(until_void),
            reset_after_us: Self::by_the_clock(reset, time).min(until_void),
            ..Verdict::admitted()
        }
    }

    /// The microseconds for which the state may count. Under other limits than those of the newest
    /// write, a bucket would seem to last longer.
    #[inline]
    fn until_void(&self, CallTime { now, is_live, .. }: CallTime) -> u64 {
        if is_live && !S::KEEPS_TIMES {
            self.expires_at.saturating_sub(now)
        } else {
            u64::MAX
        }
    }

    /// The verdict without a charge.
    fn verdict(
        &self,
        request: &Request<'_>,
        standing: &Standing,
        reset: u64,
        time: CallTime,
    ) -> Verdict {
        let blocked_for = self.blocked_for(time);
        let (demand, CallTime { at, is_live, .. }) = (request.demand(), time);
        let reserves = is_live && self.state.reserves(&demand, at);
        let (mut standing, mut reset) = (*standing, reset);
        if reserves && standing.status.wait > 0 {
            (standing, _) = self.state.standing_behind_reservations(&demand, at);
            reset = self.reset(request, &standing, time);
        }
        let mut verdict = self.refused(&standing, reset, time);
        verdict.allowed = standing.status.wait == 0;
        if reserves {
            let wait = Self::by_the_clock(standing.status.wait, time);
            let longest = self
                .until_void(time)
                .max(Self::by_the_clock(RESERVED_WAIT, time));
            (verdict.retry_after_us, verdict.reset_after_us) =
                (wait.min(longest), Self::by_the_clock(reset, time));
        }
        verdict.retry_after_us = verdict.retry_after_us.max(blocked_for);
        verdict.reset_after_us = verdict.reset_after_us.max(blocked_for);
        if blocked_for > 0 {
            return Verdict {
                allowed: false,
                remaining: 0,
                ..verdict
            }
            .by_block_for(blocked_for);
        }
        verdict
    }
}

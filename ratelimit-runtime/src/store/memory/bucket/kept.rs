//! [`KeyState`]: the state of one key under its algorithm, with the parts that all algorithms
//! share: a clock that never steps back, the expiry, and the block.

use super::block::Block;
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
    /// The time at which all charges are void, in microseconds. A block may last longer.
    expires_at: u64,
    /// The block, which few keys ever have.
    block: Option<Box<Block>>,
}

/// The time of a call.
#[derive(Clone, Copy)]
struct CallTime {
    /// The time of the clock.
    now: u64,
    /// The time of the call, which never steps back; where each unit has its own time, the clock's.
    at: u64,
    /// `true` if earlier charges may count.
    is_live: bool,
}

impl CallTime {
    /// A duration from `at` on, measured from `now` on.
    #[inline]
    fn by_the_clock(self, duration: u64) -> u64 {
        if duration == 0 {
            0
        } else {
            duration.saturating_add(self.at - self.now)
        }
    }
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
        if self.block.is_some() || request.cost() == 0 {
            return self.acquire_unless_blocked(request, now);
        }
        let time = self.begin(now);
        let taken = self.state.take(&request.demand(), time.at);
        self.taken(request, &taken, time)
    }

    /// [`acquire`](Self::acquire) of a key that has or had a block, or of a call without a cost.
    #[inline(never)]
    fn acquire_unless_blocked(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        if request.cost() == 0 || self.blocked_for(self.advance(now)) > 0 {
            return self.offend(request, now);
        }
        let time = self.begin(now);
        let taken = self.state.take_step_by_step(&request.demand(), time.at);
        if taken.ticket > 0 {
            // A block that has ended is dropped, unless its offences count for the next one.
            self.block
                .take_if(|block| block.strikes(request.block, time.at) == 0);
        }
        self.taken(request, &taken, time)
    }

    /// The time of a call that is charged, or refused by charges that count.
    #[inline]
    fn begin(&mut self, now: u64) -> CallTime {
        if now >= self.expires_at {
            // A store is asked for no more than its limits admit at once: a new state admits it.
            self.begin_anew();
        }
        CallTime {
            now,
            at: now.max(self.state.newest()),
            is_live: true,
        }
    }

    /// The verdict of [`acquire`](Self::acquire), and the block.
    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    fn taken(&mut self, request: &Request<'_>, taken: &Taken, time: CallTime) -> Verdict {
        if taken.ticket > 0 {
            self.admitted(request, taken, time)
        } else if request.block.first_us() > 0 {
            self.refuse(request, &taken.standing, time)
        } else {
            self.refused(&taken.standing, time)
        }
    }

    /// The verdict and the block of [`acquire`](Self::acquire), without a charge.
    pub(super) fn offend(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(now);
        let standing = self.standing(request, time);
        self.refuse(request, &standing, time)
    }

    /// The verdict without a charge. Sets a block if limits refuse and no block does: reservations
    /// alone do not block a key.
    #[inline(never)]
    fn refuse(&mut self, request: &Request<'_>, standing: &Standing, time: CallTime) -> Verdict {
        let offends = standing.is_exceeded && self.blocked_for(time) == 0;
        if offends && request.block.first_us() > 0 {
            let block = Block::of_offence(request.block, self.block.as_deref(), time.at);
            self.set_block(block, time);
        }
        self.verdict(standing, time)
    }

    /// The verdict of [`acquire`](Self::acquire), without a charge or a block.
    pub(super) fn peek(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let time = self.advance(now);
        let standing = self.standing(request, time);
        self.verdict(&standing, time)
    }

    /// The standing of the limits for the request.
    fn standing(&mut self, request: &Request<'_>, time: CallTime) -> Standing {
        if time.is_live {
            return self.state.standing(&request.demand(), time.at);
        }
        // A void state is left alone until a write: the clock may step back to before its end.
        S::default().standing(&request.demand(), time.at)
    }

    /// The verdict after the limits were charged.
    #[inline]
    fn admitted(&mut self, request: &Request<'_>, taken: &Taken, time: CallTime) -> Verdict {
        self.expires_at = time.at.saturating_add(taken.life);
        let Standing { limit, status, .. } = taken.standing;
        Verdict {
            limit_index: limit,
            remaining: status.remaining.saturating_sub(request.cost()),
            reset_after_us: time.by_the_clock(status.reset),
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

    /// The rest of the block by the clock, in microseconds.
    #[inline]
    fn blocked_for(&self, time: CallTime) -> u64 {
        let block = self.block.as_ref();
        time.by_the_clock(block.map_or(0, |block| block.left(time.at)))
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
        let statuses = self.state.statuses(&request.demand(), at);
        request
            .limits()
            .iter()
            .zip(statuses)
            .try_fold(0, |fullest, (limit, status)| {
                let capacity = request.algorithm().capacity(limit);
                let used = capacity.saturating_sub(status.remaining);
                // A capacity has 52 bits.
                (capacity > 0 && 2 * used <= capacity && !status.is_reserved)
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
        let is_live = now < self.expires_at;
        let newest = if is_live { self.state.newest() } else { 0 };
        CallTime {
            now,
            at: now.max(newest),
            is_live,
        }
    }

    /// The verdict if limits refuse.
    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    fn refused(&self, standing: &Standing, time: CallTime) -> Verdict {
        let status = standing.status;
        // Under other limits than those of the newest write, a bucket would seem to last longer.
        let until_void = if time.is_live {
            self.expires_at.saturating_sub(time.now)
        } else {
            u64::MAX
        };
        // What is reserved of a bucket does not drain.
        let (longest_wait, longest_reset) = if status.is_reserved {
            (until_void.max(time.by_the_clock(RESERVED_WAIT)), u64::MAX)
        } else {
            (until_void, until_void)
        };
        Verdict {
            allowed: false,
            limit_index: standing.limit,
            remaining: status.remaining,
            retry_after_us: time.by_the_clock(status.wait).min(longest_wait),
            reset_after_us: time.by_the_clock(status.reset).min(longest_reset),
            ..Verdict::admitted()
        }
    }

    /// The verdict without a charge.
    fn verdict(&self, standing: &Standing, time: CallTime) -> Verdict {
        let mut verdict = self.refused(standing, time);
        let blocked_for = self.blocked_for(time);
        if blocked_for == 0 {
            verdict.allowed = standing.status.wait == 0;
            return verdict;
        }
        Verdict {
            remaining: 0,
            retry_after_us: verdict.retry_after_us.max(blocked_for),
            reset_after_us: verdict.reset_after_us.max(blocked_for),
            ..verdict
        }
        .by_block_for(blocked_for)
    }
}

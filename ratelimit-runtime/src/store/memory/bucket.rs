//! [`Bucket`]: the state of one key, whatever the algorithm: its clock, its expiry, and its block.

use super::block::Block;
use crate::algorithm::{
    AlgorithmState, Counters, FixedWindow, LeakyBucket, LimitStatus, Log, SlidingCounter, TokenBucket,
};
use crate::rule::Algorithm;
use crate::store::request::Request;
use crate::store::verdict::Verdict;

/// The state of one key.
#[derive(Debug)]
pub(super) struct Bucket {
    state: State,
    /// The time of the newest admission, or of what was settled or refunded since. An earlier clock has stepped back,
    /// and is read as standing still at this time, so that nothing is admitted twice.
    newest: u64,
    /// When what was admitted is void, by the clock as it is. A block may last longer.
    expires_at: u64,
    block: Block,
    /// The first ticket of this state: what has an earlier one is gone, with the state before.
    first_ticket: u64,
    /// Of a state that was copied from a shared one.
    copied: Option<Copied>,
}

/// What is known of a copied state, apart from what strangers used.
#[derive(Debug, Clone, Copy)]
struct Copied {
    /// When what strangers used is void.
    until: u64,
    /// What this key was charged or has reserved since: the most that it can be given back.
    own: u64,
}

#[derive(Debug)]
enum State {
    SlidingWindow(Log),
    SlidingCounter(Counters<SlidingCounter>),
    FixedWindow(Counters<FixedWindow>),
    TokenBucket(Counters<TokenBucket>),
    LeakyBucket(Counters<LeakyBucket>),
}

impl State {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::SlidingWindow => Self::SlidingWindow(Log::default()),
            Algorithm::SlidingCounter => Self::SlidingCounter(Counters::default()),
            Algorithm::FixedWindow => Self::FixedWindow(Counters::default()),
            Algorithm::TokenBucket => Self::TokenBucket(Counters::default()),
            Algorithm::LeakyBucket => Self::LeakyBucket(Counters::default()),
        }
    }

    fn algorithm(&mut self) -> &mut dyn AlgorithmState {
        match self {
            Self::SlidingWindow(log) => log,
            Self::SlidingCounter(counters) => counters,
            Self::FixedWindow(counters) => counters,
            Self::TokenBucket(counters) => counters,
            Self::LeakyBucket(counters) => counters,
        }
    }

    fn copy(&mut self, request: &Request<'_>, now: u64) -> (Self, u64) {
        fn copied<S: AlgorithmState>(
            state: &mut S,
            request: &Request<'_>,
            now: u64,
            make: fn(S) -> State,
        ) -> (State, u64) {
            let (copy, first_ticket) = state.copy(&request.question(), now);
            (make(copy), first_ticket)
        }
        match self {
            Self::SlidingWindow(log) => copied(log, request, now, Self::SlidingWindow),
            Self::SlidingCounter(counters) => copied(counters, request, now, Self::SlidingCounter),
            Self::FixedWindow(counters) => copied(counters, request, now, Self::FixedWindow),
            Self::TokenBucket(counters) => copied(counters, request, now, Self::TokenBucket),
            Self::LeakyBucket(counters) => copied(counters, request, now, Self::LeakyBucket),
        }
    }
}

impl Bucket {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self {
            state: State::new(algorithm),
            newest: 0,
            expires_at: 0,
            block: Block::default(),
            first_ticket: u64::MAX,
            copied: None,
        }
    }

    /// A bucket that answers as this one does now, for a key that has shared it with others. Blocks are not copied, and
    /// nothing can be given back that was used before.
    pub(super) fn copy(&mut self, request: &Request<'_>, now: u64) -> Self {
        let at = self.advance(request, now);
        let (state, first_ticket) = self.state.copy(request, at);
        Self {
            state,
            newest: self.newest,
            expires_at: self.expires_at,
            block: Block::default(),
            first_ticket,
            copied: Some(Copied { until: self.expires_at, own: 0 }),
        }
    }

    pub(super) fn acquire(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let (verdict, exceeded) = self.look(request, now);
        if verdict.allowed {
            return if request.cost() == 0 { verdict } else { self.admit(request, now) };
        }
        // Nobody is blocked for what strangers used.
        if exceeded && request.block_us() > 0 && !verdict.blocked && self.copied.is_none() {
            self.block(request, request.block_us(), now);
            return self.look(request, now).0;
        }
        verdict
    }

    /// What [`acquire`](Self::acquire) would say.
    pub(super) fn peek(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        self.look(request, now).0
    }

    /// The verdict, and whether the limits refuse even without the open reservations.
    fn look(&mut self, request: &Request<'_>, now: u64) -> (Verdict, bool) {
        let at = self.advance(request, now);
        // What is void is left alone until something is written: the clock may step back to before that.
        let mut unused = State::new(request.algorithm());
        let state = if self.is_live(now) { &mut self.state } else { &mut unused };
        let statuses = state.algorithm().status(&request.question(), request.cost(), at);
        let exceeded = statuses.iter().any(|status| status.exceeded);
        (self.verdict(&statuses, at, now), exceeded)
    }

    /// Charges or reserves what [`look`](Self::look) admits.
    fn admit(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        // A block that is over stays over.
        self.block = Block::default();
        self.forget_void(request, now);
        let at = self.advance(request, now);
        let state = self.state.algorithm();
        let ticket = if request.is_reservation() {
            state.reserve(&request.question(), at)
        } else {
            state.charge(&request.question(), at)
        };
        self.written(request, at, now);
        self.first_ticket = self.first_ticket.min(ticket);
        if let Some(copied) = &mut self.copied {
            copied.own = copied.own.saturating_add(request.cost());
        }
        let statuses = self.state.algorithm().status(&request.question(), 0, at);
        self.verdict(&statuses, at, now).with_ticket(ticket)
    }

    /// Notes that something was admitted or committed.
    fn written(&mut self, request: &Request<'_>, at: u64, now: u64) {
        self.newest = at;
        self.expires_at = now.saturating_add(self.state.algorithm().life(&request.question(), at));
    }

    pub(super) fn refund(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        let at = self.advance(request, now);
        self.give_back(request, ticket, at, now, |state| state.refund(&request.question(), ticket, at))
    }

    pub(super) fn release(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        let at = self.advance(request, now);
        self.give_back(request, ticket, at, now, |state| state.release(&request.question(), ticket, at))
    }

    fn give_back(
        &mut self,
        request: &Request<'_>,
        ticket: u64,
        at: u64,
        now: u64,
        work: impl FnOnce(&mut dyn AlgorithmState) -> bool,
    ) -> bool {
        let own = self.copied.map_or(u64::MAX, |copied| copied.own);
        let there = self.is_live(now) && ticket >= self.first_ticket && request.cost() <= own;
        let done = there && work(self.state.algorithm());
        if let Some(copied) = self.copied.as_mut().filter(|_| done) {
            copied.own -= request.cost();
        }
        if done && !self.is_log() {
            // The counters have been brought to this time.
            self.newest = at;
        }
        done
    }

    pub(super) fn commit(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        let at = self.advance(request, now);
        let there = self.is_live(now) && ticket >= self.first_ticket;
        let done = there && self.state.algorithm().commit(&request.question(), ticket, at);
        // A log keeps the time of the reservation; counters charge it now.
        if done && !self.is_log() {
            self.written(request, at, now);
        }
        done
    }

    pub(super) fn block(&mut self, request: &Request<'_>, duration: u64, now: u64) {
        self.advance(request, now);
        self.forget_void(request, now);
        self.block = Block::new(duration, now);
    }

    pub(super) fn unblock(&mut self, request: &Request<'_>, now: u64) -> bool {
        self.advance(request, now);
        let blocked = self.block.left(now) > 0;
        if blocked {
            self.block = Block::default();
        }
        blocked
    }

    /// Whether nothing of the state counts any more.
    pub(super) fn is_void(&self, now: u64) -> bool {
        !self.is_live(now) && self.block.left(now) == 0
    }

    fn forget_void(&mut self, request: &Request<'_>, now: u64) {
        if !self.is_live(now) {
            *self = Self { block: self.block, ..Self::new(request.algorithm()) };
        }
    }

    fn is_log(&self) -> bool {
        matches!(self.state, State::SlidingWindow(_))
    }

    /// Whether what was admitted may count.
    fn is_live(&self, now: u64) -> bool {
        now < self.expires_at
    }

    /// Brings block and expiry to `now`; returns the time that never steps back.
    fn advance(&mut self, request: &Request<'_>, now: u64) -> u64 {
        self.block = self.block.at(now);
        if !self.is_live(now) {
            return now;
        }
        if self.copied.is_some_and(|copied| now >= copied.until) {
            self.copied = None;
        }
        if now < self.newest {
            // The clock stepped back. What is kept lives no longer than it would if it had been written now.
            self.expires_at = self.expires_at.min(now.saturating_add(request.horizon_us()));
        }
        now.max(self.newest)
    }

    /// Decided by the first of the limits that wait longest; if none has to wait, by the first of those with the
    /// least left.
    fn verdict(&self, statuses: &[LimitStatus], at: u64, now: u64) -> Verdict {
        let decisive = statuses.iter().enumerate().min_by_key(|(_, status)| (!status.wait, status.remaining));
        let (index, status) = decisive.map_or((0, LimitStatus::default()), |(index, status)| (index, *status));
        let by_the_clock = |duration: u64| match duration {
            0 => 0,
            duration => (duration + (at - now)).min(self.expires_at.saturating_sub(now)),
        };
        let (wait, reset) = (by_the_clock(status.wait), by_the_clock(status.reset));
        let blocked_for = self.block.left(now);
        if blocked_for > 0 {
            let verdict = Verdict::new(false, status.remaining, wait.max(blocked_for), reset.max(blocked_for));
            return verdict.by_limit(index).by_block();
        }
        Verdict::new(status.wait == 0, status.remaining, wait, reset).by_limit(index)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rule::Limit;

    const START: u64 = 1_000_000_000;
    const MINUTE: u64 = 60_000_000;

    fn ask(limits: &[Limit], cost: u64) -> Request<'_> {
        Request::new(b"key", Algorithm::SlidingWindow, limits).with_cost(cost)
    }

    #[test]
    fn a_slot_used_at_t_is_free_at_t_plus_window() {
        let limits = [Limit::per_minute(2)];
        let mut bucket = Bucket::new(Algorithm::SlidingWindow);
        assert!(bucket.acquire(&ask(&limits, 1), START).allowed);
        assert!(bucket.acquire(&ask(&limits, 1), START + 10).allowed);
        let refused = bucket.acquire(&ask(&limits, 1), START + 20);
        assert_eq!(refused, Verdict::new(false, 0, MINUTE - 20, MINUTE - 10));
        assert!(!bucket.acquire(&ask(&limits, 1), START + MINUTE - 1).allowed);
        assert!(bucket.acquire(&ask(&limits, 1), START + MINUTE).allowed);
        assert!(!bucket.acquire(&ask(&limits, 1), START + MINUTE + 9).allowed);
        assert!(bucket.acquire(&ask(&limits, 1), START + MINUTE + 10).allowed);
    }

    #[test]
    fn several_limits_are_charged_all_or_none() {
        let limits = [Limit::per_minute(3), Limit::new(4, Duration::from_secs(3600))];
        let mut bucket = Bucket::new(Algorithm::SlidingWindow);
        for step in 0..3 {
            assert!(bucket.acquire(&ask(&limits, 1), START + step).allowed);
        }
        let refused = bucket.acquire(&ask(&limits, 1), START + 3);
        assert_eq!((refused.limit_index, refused.retry_after_us), (0, MINUTE - 3));
        assert!(bucket.acquire(&ask(&limits, 1), START + MINUTE).allowed);
        let refused = bucket.acquire(&ask(&limits, 1), START + MINUTE + 2);
        assert_eq!((refused.limit_index, refused.retry_after_us), (1, 60 * MINUTE - MINUTE - 2));
    }

    #[test]
    fn a_clock_that_steps_back_admits_no_more_and_keeps_nothing_longer_than_a_window() {
        let limits = [Limit::per_minute(1)];
        let mut bucket = Bucket::new(Algorithm::SlidingWindow);
        assert!(bucket.acquire(&ask(&limits, 1), START + 100 * MINUTE).allowed);
        let refused = bucket.acquire(&ask(&limits, 1), START);
        assert_eq!((refused.allowed, refused.retry_after_us), (false, MINUTE));
        assert!(!bucket.acquire(&ask(&limits, 1), START + MINUTE - 1).allowed);
        assert!(bucket.acquire(&ask(&limits, 1), START + MINUTE).allowed);
    }

    #[test]
    fn a_heavy_call_waits_for_as_many_entries_as_it_needs() {
        let limits = [Limit::per_minute(10)];
        let mut bucket = Bucket::new(Algorithm::SlidingWindow);
        for (step, cost) in [4, 3, 3].into_iter().enumerate() {
            assert!(bucket.acquire(&ask(&limits, cost), START + step as u64).allowed);
        }
        assert_eq!(bucket.peek(&ask(&limits, 1), START + 5).retry_after_us, MINUTE - 5);
        assert_eq!(bucket.peek(&ask(&limits, 5), START + 5).retry_after_us, MINUTE - 4);
        assert_eq!(bucket.peek(&ask(&limits, 10), START + 5).retry_after_us, MINUTE - 3);
    }
}

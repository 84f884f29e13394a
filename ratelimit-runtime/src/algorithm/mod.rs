//! The algorithms: pure functions of (state, now, cost), one file each, without I/O.
//!
//! The memory store applies them under a lock; the Redis scripts say the same on the server, in the same integer
//! arithmetic: microseconds, whole costs, products of 128 bits divided and rounded as stated.
//!
//! An algorithm sees a clock that never steps back and a state that has not expired: [`Bucket`] sees to both.

mod counters;
mod fixed_window;
mod leaky_bucket;
mod sliding_counter;
mod sliding_window;
mod token_bucket;

use counters::Counters;
use fixed_window::FixedWindow;
use leaky_bucket::LeakyBucket;
use sliding_counter::SlidingCounter;
use sliding_window::Log;
use smallvec::SmallVec;
use token_bucket::TokenBucket;

use crate::rule::Algorithm;
use crate::rule::Limit;
use crate::store::{Request, Verdict};

/// The state of one key.
#[derive(Debug)]
pub(crate) struct Bucket {
    state: State,
    /// The time of the newest admission. An earlier clock has stepped back, and is read as standing still at this
    /// time, so that nothing is admitted twice.
    newest: u64,
    /// When what was charged is void, by the clock as it is. A ban may last longer.
    expires_at: u64,
    banned_until: u64,
    /// When the state began: whatever was charged before is gone with the state before.
    born: u64,
}

#[derive(Debug)]
enum State {
    SlidingWindow(Log),
    SlidingCounter(Counters<SlidingCounter>),
    FixedWindow(Counters<FixedWindow>),
    TokenBucket(Counters<TokenBucket>),
    LeakyBucket(Counters<LeakyBucket>),
}

/// What an algorithm does with its state, for all limits of a rule.
trait Kept {
    /// Where the limits stand towards a call of `cost`.
    fn standings(&mut self, limits: &[Limit], cost: u64, now: u64) -> SmallVec<[Standing; 2]>;

    /// The same, as if every open reservation had been given back.
    fn standings_unheld(&mut self, limits: &[Limit], cost: u64, now: u64) -> SmallVec<[Standing; 2]>;

    /// Charges every limit, as a reservation if `held`; returns what names the charge.
    fn charge(&mut self, limits: &[Limit], cost: u64, now: u64, held: bool) -> u64;

    /// How long the state matters from now on, after a charge.
    fn life(&self, limits: &[Limit], now: u64) -> u64;

    /// Gives back the charge that `ticket` names; says whether anything of it was left.
    fn refund(&mut self, limits: &[Limit], cost: u64, ticket: u64, now: u64, held: bool) -> bool;

    /// Makes a reservation an ordinary charge; says whether it was there.
    fn commit(&mut self, limits: &[Limit], cost: u64, ticket: u64, now: u64) -> bool;
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

    fn kept(&mut self) -> &mut dyn Kept {
        match self {
            Self::SlidingWindow(log) => log,
            Self::SlidingCounter(counters) => counters,
            Self::FixedWindow(counters) => counters,
            Self::TokenBucket(counters) => counters,
            Self::LeakyBucket(counters) => counters,
        }
    }
}

/// Where one limit stands towards one call.
#[derive(Debug, Clone, Copy)]
struct Standing {
    /// How long until the limit would admit the call; 0 where it does now.
    wait: u64,
    remaining: u64,
    /// How long until the limit is whole again.
    reset: u64,
}

impl Bucket {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self { state: State::new(algorithm), newest: 0, expires_at: 0, banned_until: 0, born: u64::MAX }
    }

    pub(crate) fn acquire(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let verdict = self.peek(request, now);
        if verdict.allowed {
            return if request.cost() == 0 { verdict } else { self.charge(request, now) };
        }
        if request.block_us() > 0 && !verdict.blocked && self.is_exceeded(request, now) {
            self.block(request, request.block_us(), now);
            return self.peek(request, now);
        }
        verdict
    }

    /// What [`acquire`](Self::acquire) would say.
    pub(crate) fn peek(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let at = self.advance(request, now);
        let mut standings = self.state.kept().standings(request.limits(), request.cost(), at);
        if standings.iter().any(|standing| standing.wait > 0) {
            let unheld = self.state.kept().standings_unheld(request.limits(), request.cost(), at);
            for (standing, unheld) in standings.iter_mut().zip(unheld) {
                // A reservation may be given back at any moment; what it hides is known.
                standing.wait = standing.wait.min(unheld.wait.max(HELD_WAIT));
            }
        }
        self.verdict(&standings, at, now)
    }

    /// Charges a request that [`peek`](Self::peek) admits.
    fn charge(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        let at = self.advance(request, now);
        let ticket = self.state.kept().charge(request.limits(), request.cost(), at, request.is_reservation());
        self.newest = at;
        self.born = self.born.min(at);
        let life = self.state.kept().life(request.limits(), at);
        self.expires_at = now.saturating_add(life);
        let standings = self.state.kept().standings(request.limits(), 0, at);
        self.verdict(&standings, at, now).with_ticket(ticket)
    }

    pub(crate) fn refund(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        let at = self.advance(request, now);
        if ticket < self.born {
            return false;
        }
        self.state.kept().refund(request.limits(), request.cost(), ticket, at, request.is_reservation())
    }

    pub(crate) fn commit(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        let at = self.advance(request, now);
        self.state.kept().commit(request.limits(), request.cost(), ticket, at)
    }

    pub(crate) fn block(&mut self, request: &Request<'_>, duration: u64, now: u64) {
        self.advance(request, now);
        self.banned_until = now.saturating_add(duration);
    }

    pub(crate) fn unblock(&mut self, now: u64) -> bool {
        let banned = self.banned_until > now;
        self.banned_until = 0;
        banned
    }

    /// Whether the limits refuse even without the open reservations.
    fn is_exceeded(&mut self, request: &Request<'_>, now: u64) -> bool {
        let at = self.advance(request, now);
        let standings = self.state.kept().standings_unheld(request.limits(), request.cost(), at);
        standings.iter().any(|standing| standing.wait > 0)
    }

    /// Whether nothing of the state counts any more.
    pub(crate) fn is_void(&self, now: u64) -> bool {
        now >= self.expires_at.max(self.banned_until)
    }

    /// Brings the state to `now`; returns the time that never steps back.
    fn advance(&mut self, request: &Request<'_>, now: u64) -> u64 {
        if now >= self.expires_at {
            *self = Self { banned_until: self.banned_until, ..Self::new(request.algorithm()) };
        }
        if now < self.newest {
            // The clock stepped back. What is kept lives no longer than it would if it had been written now.
            let longest = now.saturating_add(request.horizon_us().max(request.block_us()));
            self.expires_at = self.expires_at.min(longest);
            self.banned_until = self.banned_until.min(longest);
        }
        now.max(self.newest)
    }

    /// Decided by the first of the limits that wait longest; if none has to wait, by the first of those with the
    /// least left.
    fn verdict(&self, standings: &[Standing], at: u64, now: u64) -> Verdict {
        let decisive = standings.iter().enumerate().min_by_key(|(_, standing)| (!standing.wait, standing.remaining));
        let (index, &Standing { wait, remaining, reset }) = decisive.unwrap_or((0, &Standing::OPEN));
        let by_the_clock = |duration: u64| match duration {
            0 => 0,
            duration => (duration + (at - now)).min(self.expires_at.saturating_sub(now)),
        };
        let banned_for = self.banned_until.saturating_sub(now);
        if banned_for > 0 {
            let wait = by_the_clock(wait).max(banned_for);
            return Verdict::new(false, remaining, wait, by_the_clock(reset).max(banned_for))
                .by_limit(index)
                .by_block();
        }
        Verdict::new(wait == 0, remaining, by_the_clock(wait), by_the_clock(reset)).by_limit(index)
    }
}

impl Standing {
    const OPEN: Self = Self { wait: 0, remaining: 0, reset: 0 };
}

/// How long a call waits that only reservations are in the way of: they may be given back at any moment. 50 ms.
const HELD_WAIT: u64 = 50_000;

/// `⌊a · b / divisor⌋` and the remainder; counts and times keep the quotient within 64 bits.
fn mul_div_rem(a: u64, b: u64, divisor: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    let divisor = u128::from(divisor.max(1));
    #[allow(clippy::cast_possible_truncation, reason = "the remainder is less than a divisor of 64 bits")]
    let rest = (product % divisor) as u64;
    (u64::try_from(product / divisor).unwrap_or(u64::MAX), rest)
}

/// `⌊a · b / divisor⌋`.
fn mul_div(a: u64, b: u64, divisor: u64) -> u64 {
    mul_div_rem(a, b, divisor).0
}

/// `⌈a · b / divisor⌉`.
fn mul_div_up(a: u64, b: u64, divisor: u64) -> u64 {
    let (quotient, rest) = mul_div_rem(a, b, divisor);
    quotient.saturating_add(u64::from(rest > 0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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

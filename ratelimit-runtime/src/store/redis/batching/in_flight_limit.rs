//! [`InFlightLimit`]: how many commands and charges may be in flight to a server at once: about as
//! many as it answers in a quarter of the time that callers give it, plus the time of one round
//! trip.
//!
//! More would not be answered sooner, only wait where they can no longer be cancelled. By Little's
//! law the time that an answer takes is proportional to how many are in flight, so that time is
//! steered.

use std::time::{Duration, Instant};

/// Enough for a distant server, and for one that has not been measured.
const MIN: usize = 32;
const FIRST: usize = 128;
const MAX: usize = 8192;
/// The timeout of callers that have none.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Longer timeouts of some callers do not make others wait so long.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(4);

/// Of so many callers the timeout of one is noted. It is odd, because callers often come in pairs.
const NOTED: u8 = 5;

/// Batches that are not full begin no more often than this, once [`MIN_BATCHES`] are in flight:
/// charges that come meanwhile share the next one.
const BATCH_EVERY: Duration = Duration::from_micros(64);
/// Enough to keep a near server busy.
const MIN_BATCHES: usize = 2;
const MAX_BATCHES: usize = 64;

#[derive(Debug)]
pub(crate) struct InFlightLimit {
    max: usize,
    /// The timeout of callers, on average.
    timeout: Duration,
    /// How many callers have come since the timeout of one was noted.
    unnoted: u8,
    /// How long an answer takes when nothing is in flight before it.
    alone: Duration,
    /// How long answers took in the last round.
    takes: Duration,
    round: Round,
}

/// As many answers as there may be commands and charges in flight.
#[derive(Debug, Default)]
struct Round {
    answers: u32,
    took: Duration,
    /// Whether a caller had to wait because the limit was reached.
    was_full: bool,
}

impl InFlightLimit {
    pub(crate) fn new() -> Self {
        Self {
            max: FIRST,
            timeout: TIMEOUT,
            unnoted: 0,
            alone: Duration::MAX,
            takes: Duration::ZERO,
            round: Round::default(),
        }
    }

    pub(crate) fn admits(&self, in_flight: usize) -> bool {
        in_flight < self.max
    }

    /// How many batches may be in flight before the next has to be full: as many as begin within
    /// one round trip, so that no charge waits for a reply from afar only to be sent.
    pub(crate) fn batches(&self) -> usize {
        let batches = self.alone.as_micros() / BATCH_EVERY.as_micros();
        usize::try_from(batches).unwrap_or(MAX_BATCHES).clamp(MIN_BATCHES, MAX_BATCHES)
    }

    /// Notes the timeout of a new caller, of one in [`NOTED`]: this is done for every call.
    pub(crate) fn note_timeout(&mut self, timeout_at: Option<Instant>, now: Instant) {
        let Some(timeout_at) = timeout_at else { return };
        self.unnoted += 1;
        if self.unnoted < NOTED {
            return;
        }
        self.unnoted = 0;
        let left = timeout_at.saturating_duration_since(now).clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
        // The average of about the last 16.
        self.timeout = self.timeout.saturating_sub(self.timeout / 16) + left / 16;
    }

    /// Notes that a caller waits because the limit is reached.
    pub(crate) fn note_full(&mut self) {
        self.round.was_full = true;
    }

    /// Notes an answer to so many callers.
    pub(crate) fn note_answer(&mut self, took: Duration, callers: usize) {
        let callers = u32::try_from(callers).unwrap_or(u32::MAX);
        self.alone = self.alone.min(took);
        self.round.answers += callers;
        self.round.took += took * callers;
    }

    /// Adapts the limit, once all answers that have come are noted. `is_dry` if nothing is in
    /// flight any more, `waits` if a caller waits.
    pub(crate) fn adapt(&mut self, is_dry: bool, waits: bool) {
        if is_dry {
            // The server waits for this process. How long answers take then says how busy this
            // process is, and nothing of the server.
            if let Some(takes) = self.round.took.checked_div(self.round.answers) {
                self.takes = takes;
                self.round = Round::default();
                if waits {
                    self.max = (self.max * 2).min(MAX);
                }
            }
        } else if usize::try_from(self.round.answers).is_ok_and(|answers| answers >= self.max) {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let round = std::mem::take(&mut self.round);
        let takes = round.took / round.answers.max(1);
        self.takes = takes;
        let wanted = self.wanted();
        if !round.was_full && takes <= wanted {
            return;
        }
        // By no more than half or twice at once.
        let wanted = wanted.clamp(takes / 2, takes * 2).as_nanos();
        let max = u128::try_from(self.max).unwrap_or(u128::MAX).saturating_mul(wanted) / takes.as_nanos().max(1);
        self.max = usize::try_from(max).unwrap_or(MAX).clamp(MIN, MAX);
        // The round trip may have become longer; under load that is not to be told from waiting.
        self.alone += takes.saturating_sub(self.alone) / 256;
    }

    /// How long an answer may take, the round trip included.
    fn wanted(&self) -> Duration {
        self.alone.min(self.timeout / 2) + self.timeout / 4
    }

    /// When an answer to what is sent now will come, about: callers with an earlier timeout need
    /// not be sent.
    pub(crate) fn answer_at(&self, now: Instant) -> Instant {
        // A timeout that is over is too late in any case.
        now + (self.takes + (self.takes / 2).min(self.timeout / 8)).max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A server that answers `rate` calls a millisecond over a round trip of `alone`, always asked
    /// for as much as the limit allows: how many that is in the end, and how long they take.
    fn converged(limit: &mut InFlightLimit, rate: usize, alone: Duration) -> (usize, Duration) {
        for _ in 0..40 {
            let most = limit.max;
            let nanos = u64::try_from(most * 1_000_000 / rate).unwrap_or(u64::MAX);
            let takes = alone.max(Duration::from_nanos(nanos));
            limit.note_full();
            for _ in 0..most {
                limit.note_answer(takes, 1);
            }
            limit.adapt(false, true);
        }
        (limit.max, limit.takes)
    }

    #[test]
    fn a_quarter_of_the_timeout_is_spent_in_flight() {
        let mut limit = InFlightLimit::new();
        limit.note_answer(ms(0), 1);
        let now = Instant::now();
        for _ in 0..100 {
            limit.note_timeout(Some(now + ms(100)), now);
        }
        let (most, takes) = converged(&mut limit, 100, ms(0));
        assert!((2_300..=3_200).contains(&most), "{most}");
        assert!((ms(23)..=ms(32)).contains(&takes), "{takes:?}");
        // A server that has become slower is not buried.
        let (most, takes) = converged(&mut limit, 10, ms(0));
        assert!((230..=400).contains(&most), "{most}");
        assert!((ms(23)..=ms(40)).contains(&takes), "{takes:?}");
    }

    #[test]
    fn a_distant_server_is_asked_as_much_as_a_near_one() {
        let mut limit = InFlightLimit::new();
        limit.note_answer(ms(40), 1);
        let (most, takes) = converged(&mut limit, 50, ms(40));
        assert!((3_000..=4_500).contains(&most), "{most}");
        assert!(takes <= ms(80), "{takes:?}");
    }

    /// Answers wait until this process reads them, which takes longer than they may.
    #[test]
    fn a_busy_process_asks_for_more_at_once_instead_of_less() {
        let mut limit = InFlightLimit::new();
        limit.note_answer(ms(0), 1);
        for _ in 0..8 {
            let most = limit.max;
            for _ in 0..most {
                limit.note_full();
                limit.note_answer(ms(40), 1);
            }
            limit.adapt(true, true);
        }
        assert!(limit.max > 1_000, "{}", limit.max);
    }

    #[test]
    fn calls_to_a_distant_server_need_not_be_full() {
        for (alone, calls) in [(0, 2), (200, 3), (1_000, 15), (20_000, 64)] {
            let mut limit = InFlightLimit::new();
            limit.note_answer(Duration::from_micros(alone), 1);
            assert_eq!(limit.batches(), calls);
        }
    }

    #[test]
    fn it_stays_within_bounds() {
        let mut limit = InFlightLimit::new();
        limit.note_answer(ms(1), 1);
        let (most, _) = converged(&mut limit, 1_000_000, ms(1));
        assert_eq!(most, MAX);
        let mut limit = InFlightLimit::new();
        limit.note_answer(ms(1), 1);
        let (most, _) = converged(&mut limit, 1, ms(1));
        assert!((MIN..=MIN + 8).contains(&most), "{most}");
    }

    #[test]
    fn a_caller_with_too_little_time_left_is_not_sent() {
        let mut limit = InFlightLimit::new();
        limit.note_answer(ms(0), 1);
        converged(&mut limit, 100, ms(0));
        let now = Instant::now();
        assert!(now + ms(25) < limit.answer_at(now));
        assert!(now + ms(60) >= limit.answer_at(now));
    }

    /// They are few, and the others have more time.
    #[test]
    fn callers_in_a_hurry_are_sent_to_a_server_that_is_fast() {
        let mut limit = InFlightLimit::new();
        converged(&mut limit, 100_000, ms(1));
        let now = Instant::now();
        assert!(now + ms(5) >= limit.answer_at(now));
    }

    /// Short timeouts lower the limit for all, but not so far that nothing is sent.
    #[test]
    fn hurry_is_bounded() {
        let mut limit = InFlightLimit::new();
        let now = Instant::now();
        for _ in 0..1_000 {
            limit.note_timeout(Some(now), now);
        }
        assert!(limit.timeout >= SHORTEST_TIMEOUT && limit.timeout < 2 * SHORTEST_TIMEOUT);
        assert!(limit.admits(MIN - 1));
    }
}

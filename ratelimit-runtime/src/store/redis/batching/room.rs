//! How many commands and decisions may be on their way to a server at once: about as many as it answers in a quarter of the time that
//! callers give it, plus the time of one round trip.
//!
//! More would not be answered sooner, only wait where nobody can take them back. By Little's law the time that an answer
//! takes is proportional to how many are on their way, so that time is steered.

use std::time::{Duration, Instant};

/// Enough for a distant server, and for one that has not been measured.
const FEWEST: usize = 32;
const FIRST: usize = 128;
const MOST: usize = 8192;
/// How long callers are taken to wait if they have not said how long.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Callers who wait longer than this do not make others wait so long.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(4);

/// Calls that are not full begin no more often than this, once there are [`FEWEST_CALLS`] on their way: those who wait
/// meanwhile share the next one.
const CALL_EVERY: Duration = Duration::from_micros(64);
/// Enough to keep a near server busy.
const FEWEST_CALLS: usize = 2;
const MOST_CALLS: usize = 64;

#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    /// How long callers wait, about.
    timeout: Duration,
    /// How long an answer takes when nothing is in front of it.
    alone: Duration,
    /// How long answers took in the last round.
    takes: Duration,
    round: Round,
}

/// As many answers as there may be questions on their way.
#[derive(Debug, Default)]
struct Round {
    answers: u32,
    took: Duration,
    /// Whether somebody had to wait for room.
    was_full: bool,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self { most: FIRST, timeout: TIMEOUT, alone: Duration::MAX, takes: Duration::ZERO, round: Round::default() }
    }

    pub(crate) fn is_left(&self, on_the_way: usize) -> bool {
        on_the_way < self.most
    }

    /// How many calls may be on their way before the next has to be full: as many as begin within one round trip, so that
    /// nobody waits for a reply from afar only to be asked for.
    pub(crate) fn calls(&self) -> usize {
        let calls = self.alone.as_micros() / CALL_EVERY.as_micros();
        usize::try_from(calls).unwrap_or(MOST_CALLS).clamp(FEWEST_CALLS, MOST_CALLS)
    }

    /// Notes a new caller, who is going to wait until then.
    pub(crate) fn asked(&mut self, timeout_at: Option<Instant>, now: Instant) {
        let Some(timeout_at) = timeout_at else { return };
        let left = timeout_at.saturating_duration_since(now).clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
        // The average of about the last 16, in few instructions: this is done for every call.
        let nanos = self.timeout.as_nanos() - self.timeout.as_nanos() / 16 + left.as_nanos() / 16;
        self.timeout = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    /// Somebody waits for room.
    pub(crate) fn full(&mut self) {
        self.round.was_full = true;
    }

    /// The answer to so many callers has come.
    pub(crate) fn answered(&mut self, took: Duration, callers: usize) {
        let callers = u32::try_from(callers).unwrap_or(u32::MAX);
        self.alone = self.alone.min(took);
        self.round.answers += callers;
        self.round.took += took * callers;
    }

    /// All answers that have come have been taken in. `is_dry` if nothing is on its way any more, `waits` if somebody
    /// waits for room.
    pub(crate) fn taken_in(&mut self, is_dry: bool, waits: bool) {
        if is_dry {
            // The server is waiting for this process. How long answers take then says how busy this process is, and
            // nothing of the server.
            if let Some(takes) = self.round.took.checked_div(self.round.answers) {
                self.takes = takes;
                self.round = Round::default();
                if waits {
                    self.most = (self.most * 2).min(MOST);
                }
            }
        } else if usize::try_from(self.round.answers).is_ok_and(|answers| answers >= self.most) {
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
        let most = u128::try_from(self.most).unwrap_or(u128::MAX).saturating_mul(wanted) / takes.as_nanos().max(1);
        self.most = usize::try_from(most).unwrap_or(MOST).clamp(FEWEST, MOST);
        // The way may have become longer; under load that is not to be told from waiting.
        self.alone += takes.saturating_sub(self.alone) / 256;
    }

    /// How long an answer may take, including the way.
    fn wanted(&self) -> Duration {
        self.alone.min(self.timeout / 2) + self.timeout / 4
    }

    /// For those who have waited for room and do not wait until this moment, an answer would come too late.
    pub(crate) fn in_time(&self, now: Instant) -> Instant {
        // Whoever waits no longer than now is late in any case.
        now + (self.takes + (self.takes / 2).min(self.timeout / 8)).max(Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A server that answers `rate` questions a millisecond over a way of `alone`, always asked for all that there is
    /// room for: how many that is in the end, and how long they take.
    fn settled(room: &mut Room, rate: usize, alone: Duration) -> (usize, Duration) {
        for _ in 0..40 {
            let most = room.most;
            let nanos = u64::try_from(most * 1_000_000 / rate).unwrap_or(u64::MAX);
            let takes = alone.max(Duration::from_nanos(nanos));
            room.full();
            for _ in 0..most {
                room.answered(takes, 1);
            }
            room.taken_in(false, true);
        }
        (room.most, room.takes)
    }

    #[test]
    fn a_quarter_of_the_time_is_spent_on_the_way() {
        let mut room = Room::new();
        room.answered(ms(0), 1);
        let now = Instant::now();
        for _ in 0..100 {
            room.asked(Some(now + ms(100)), now);
        }
        let (most, takes) = settled(&mut room, 100, ms(0));
        assert!((2_300..=3_200).contains(&most), "{most}");
        assert!((ms(23)..=ms(32)).contains(&takes), "{takes:?}");
        // A server that has become slower is not buried.
        let (most, takes) = settled(&mut room, 10, ms(0));
        assert!((230..=400).contains(&most), "{most}");
        assert!((ms(23)..=ms(40)).contains(&takes), "{takes:?}");
    }

    #[test]
    fn a_distant_server_is_asked_as_much_as_a_near_one() {
        let mut room = Room::new();
        room.answered(ms(40), 1);
        let (most, takes) = settled(&mut room, 50, ms(40));
        assert!((3_000..=4_500).contains(&most), "{most}");
        assert!(takes <= ms(80), "{takes:?}");
    }

    /// Answers wait until this process comes to read them, which takes longer than they may.
    #[test]
    fn a_busy_process_asks_for_more_at_once_instead_of_less() {
        let mut room = Room::new();
        room.answered(ms(0), 1);
        for _ in 0..8 {
            let most = room.most;
            for _ in 0..most {
                room.full();
                room.answered(ms(40), 1);
            }
            room.taken_in(true, true);
        }
        assert!(room.most > 1_000, "{}", room.most);
    }

    #[test]
    fn calls_to_a_distant_server_need_not_be_full() {
        for (alone, calls) in [(0, 2), (200, 3), (1_000, 15), (20_000, 64)] {
            let mut room = Room::new();
            room.answered(Duration::from_micros(alone), 1);
            assert_eq!(room.calls(), calls);
        }
    }

    #[test]
    fn it_stays_within_bounds() {
        let mut room = Room::new();
        room.answered(ms(1), 1);
        let (most, _) = settled(&mut room, 1_000_000, ms(1));
        assert_eq!(most, MOST);
        let mut room = Room::new();
        room.answered(ms(1), 1);
        let (most, _) = settled(&mut room, 1, ms(1));
        assert!((FEWEST..=FEWEST + 8).contains(&most), "{most}");
    }

    #[test]
    fn whoever_has_too_little_time_left_is_not_sent() {
        let mut room = Room::new();
        room.answered(ms(0), 1);
        settled(&mut room, 100, ms(0));
        let now = Instant::now();
        assert!(now + ms(25) < room.in_time(now));
        assert!(now + ms(60) >= room.in_time(now));
    }

    /// They are few, and the others have more time.
    #[test]
    fn callers_in_a_hurry_are_sent_to_a_server_that_is_fast() {
        let mut room = Room::new();
        settled(&mut room, 100_000, ms(1));
        let now = Instant::now();
        assert!(now + ms(5) >= room.in_time(now));
    }

    /// Callers in a hurry shorten the way for all; they cannot make it so short that nothing gets through.
    #[test]
    fn hurry_is_bounded() {
        let mut room = Room::new();
        let now = Instant::now();
        for _ in 0..1_000 {
            room.asked(Some(now), now);
        }
        assert!(room.timeout >= SHORTEST_TIMEOUT && room.timeout < 2 * SHORTEST_TIMEOUT);
        assert!(room.is_left(FEWEST - 1));
    }
}

//! [`HealthCheck`]: decides whether a connected server serves. It does no I/O: its caller sends and
//! waits.
//!
//! | state | a call | left when |
//! | --- | --- | --- |
//! | up | is sent | a PING is not answered in time, or answered with `BUSY`, `LOADING`, …: slow |
//! | slow | is answered as `on_unavailable` says; PINGs go on, one at a time | a PING is answered in time: up |
//! | either | | no byte comes for [`SILENCE`] while one is due: the connection is over |
//!
//! Time is counted in ticks, in each of which this process has tried to read. One that comes late,
//! because a flood keeps the runtime busy, counts as one: a server is not slow because its client
//! is.

use std::time::Duration;

use crate::store::redis::backoff::Backoff;

/// Without a byte for this long, a connection on which an answer is due is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
/// How many ticks the timeout of a PING consists of, unless that makes them longer than
/// [`LONGEST_TICK`].
const TICKS: u32 = 10;
/// The timeout of a PING as long as no limiter has reported its own.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Timers count in milliseconds.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
const LONGEST_TICK: Duration = Duration::from_millis(50);
/// Between two PINGs whose answer was that the server does not serve.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Up,
    Slow,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    SendPing,
    GiveUp,
}

/// What came of a PING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pong {
    Serves,
    /// It answers that it does not serve.
    Unready,
}

#[derive(Debug)]
pub(super) struct HealthCheck {
    phase: Phase,
    probe: Probe,
    /// Of a PING.
    timeout: Duration,
    backoff: Backoff,
    /// How long no byte has come.
    silent: Duration,
}

#[derive(Debug)]
enum Probe {
    None,
    /// A PING is on its way, for this long.
    Waiting(Duration),
    /// The next one is due in this long.
    Pausing(Duration),
}

impl HealthCheck {
    /// Of a connection whose first PING was answered like this.
    pub(super) fn new(first: Pong) -> Self {
        let (phase, probe) = match first {
            Pong::Serves => (Phase::Up, Probe::None),
            Pong::Unready => (Phase::Slow, Probe::Pausing(SHORTEST_PAUSE)),
        };
        let backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        Self { phase, probe, timeout: TIMEOUT, backoff, silent: Duration::ZERO }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Doubts the server: a call got no answer within `timeout`, or was told that it does not
    /// serve.
    pub(super) fn doubt(&mut self, timeout: Option<Duration>) -> Action {
        if !matches!((self.phase, &self.probe), (Phase::Up, Probe::None)) {
            return Action::Nothing;
        }
        if let Some(timeout) = timeout {
            self.timeout = timeout.max(SHORTEST_TICK * TICKS);
        }
        self.ping()
    }

    /// Whether a PING is on its way.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.probe, Probe::Waiting(_))
    }

    /// How long until the next tick, if there is to be one.
    pub(super) fn tick_in(&self) -> Option<Duration> {
        match self.probe {
            Probe::None => None,
            Probe::Waiting(_) => Some((self.timeout / TICKS).min(LONGEST_TICK)),
            Probe::Pausing(left) => Some(left),
        }
    }

    /// Counts a tick: the time of [`tick_in`](Self::tick_in) is over, and this process has tried to
    /// read. `heard` if a byte has come since the last tick.
    pub(super) fn tick(&mut self, heard: bool) -> Action {
        let tick = self.tick_in().unwrap_or_default();
        match &mut self.probe {
            Probe::None => Action::Nothing,
            Probe::Pausing(_) => self.ping(),
            Probe::Waiting(waited) => {
                *waited += tick;
                self.silent = if heard { Duration::ZERO } else { self.silent + tick };
                if *waited >= self.timeout {
                    self.phase = Phase::Slow;
                }
                if self.silent >= SILENCE { Action::GiveUp } else { Action::Nothing }
            }
        }
    }

    /// Takes in the answer to the PING.
    pub(super) fn pong(&mut self, pong: Pong) {
        let Probe::Waiting(waited) = self.probe else { return };
        match pong {
            Pong::Serves if waited < self.timeout => {
                self.phase = Phase::Up;
                self.probe = Probe::None;
                self.backoff.reset();
            }
            // Late. The next one may not be.
            Pong::Serves => self.probe = Probe::Pausing(SHORTEST_TICK),
            Pong::Unready => {
                self.phase = Phase::Slow;
                self.probe = Probe::Pausing(self.backoff.pause());
            }
        }
    }

    fn ping(&mut self) -> Action {
        self.probe = Probe::Waiting(Duration::ZERO);
        self.silent = Duration::ZERO;
        Action::SendPing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(10);

    /// Ticks until something is to be done, or this long has passed.
    fn pass(check: &mut HealthCheck, time: Duration, heard: bool) -> Action {
        let mut passed = Duration::ZERO;
        while passed < time {
            let Some(tick) = check.tick_in() else { return Action::Nothing };
            passed += tick;
            match check.tick(heard) {
                Action::Nothing => {}
                action => return action,
            }
        }
        Action::Nothing
    }

    fn up() -> HealthCheck {
        HealthCheck::new(Pong::Serves)
    }

    /// After a frozen server was noticed.
    fn slow() -> HealthCheck {
        let mut check = up();
        assert_eq!(check.doubt(Some(TENTH * 10)), Action::SendPing);
        assert_eq!(pass(&mut check, TENTH * 10, false), Action::Nothing);
        assert_eq!(check.phase(), Phase::Slow);
        check
    }

    #[test]
    fn nothing_is_done_while_no_call_complains() {
        assert_eq!(up().tick_in(), None);
        assert_eq!(up().phase(), Phase::Up);
    }

    #[test]
    fn a_lost_call_costs_one_ping() {
        let mut check = up();
        assert_eq!(check.doubt(Some(TENTH * 10)), Action::SendPing);
        assert_eq!(check.doubt(Some(TENTH * 10)), Action::Nothing, "one at a time");
        assert_eq!(pass(&mut check, TENTH * 9, false), Action::Nothing);
        check.pong(Pong::Serves);
        assert_eq!((check.phase(), check.tick_in()), (Phase::Up, None));
        assert_eq!(check.doubt(Some(TENTH * 10)), Action::SendPing);
    }

    #[test]
    fn a_ping_that_is_not_answered_in_time_makes_it_slow_and_one_that_is_up() {
        let mut check = slow();
        assert_eq!(check.doubt(Some(TENTH * 10)), Action::Nothing, "it is known");
        check.pong(Pong::Serves);
        assert_eq!(check.phase(), Phase::Slow, "that was late");
        assert_eq!(pass(&mut check, TENTH, true), Action::SendPing);
        check.pong(Pong::Serves);
        assert_eq!((check.phase(), check.tick_in()), (Phase::Up, None));
    }

    #[test]
    fn silence_ends_the_connection() {
        let mut check = slow();
        assert_eq!(pass(&mut check, TENTH * 189, false), Action::Nothing);
        assert_eq!(pass(&mut check, TENTH, false), Action::GiveUp);
    }

    #[test]
    fn a_server_that_says_anything_is_kept() {
        let mut check = slow();
        assert_eq!(pass(&mut check, 3 * SILENCE, true), Action::Nothing);
        assert_eq!(check.phase(), Phase::Slow);
    }

    #[test]
    fn one_that_does_not_serve_is_asked_again_with_pauses() {
        let mut check = HealthCheck::new(Pong::Unready);
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(check.phase(), Phase::Slow);
            waits.push(check.tick_in());
            assert_eq!(check.tick(false), Action::SendPing);
            check.pong(Pong::Unready);
        }
        assert_eq!(waits.first(), Some(&Some(SHORTEST_PAUSE)));
        assert_eq!(waits.last(), Some(&Some(LONGEST_PAUSE)));
        assert!(waits.is_sorted());
        assert_eq!(check.tick(false), Action::SendPing);
        check.pong(Pong::Serves);
        assert_eq!(check.phase(), Phase::Up);
        // The next time starts with a short pause again.
        assert_eq!(check.doubt(Some(TENTH)), Action::SendPing);
        check.pong(Pong::Unready);
        assert_eq!(check.tick_in(), Some(SHORTEST_PAUSE));
    }

    #[test]
    fn ticks_are_never_shorter_than_timers_can_tell_nor_coarse() {
        for (timeout, tick) in [(0, 1), (5, 1), (100, 10), (400, 40), (60_000, 50)] {
            let mut check = up();
            assert_eq!(check.doubt(Some(Duration::from_millis(timeout))), Action::SendPing);
            assert_eq!(check.tick_in(), Some(Duration::from_millis(tick)));
        }
    }
}

//! [`State`]: decides whether a connected server serves. It does no I/O; others send and wait.
//!
//! | state | a call | left when |
//! | --- | --- | --- |
//! | up | is sent | a PING is not answered in time, or answered with BUSY, LOADING, …: slow |
//! | slow | is answered as `on_unavailable` says; PINGs go on, one at a time | a PING is answered in time: up |
//! | either | | no byte comes for [`SILENCE`] while one is waited for: the connection is over |
//!
//! Time is counted in ticks, in each of which this process has tried to read. One that comes late, because a flood keeps
//! the runtime busy, counts as one: a server is not slow because its client is.

use std::time::Duration;

/// Without a byte for this long, a connection on which an answer is due is given up.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
/// How many ticks the timeout of a PING consists of.
const TICKS: u32 = 10;
/// The timeout of a PING as long as no limiter has reported its own.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Timers count in milliseconds.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
const LONGEST_TICK: Duration = Duration::from_millis(50);
/// Between two PINGs that were answered with a refusal.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
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
    Refuses,
}

#[derive(Debug)]
pub(crate) struct State {
    phase: Phase,
    probe: Probe,
    timeout: Duration,
    pause: Duration,
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

impl State {
    /// Of a connection whose first PING was answered like this.
    pub(crate) fn new(first: Pong) -> Self {
        let (phase, probe) = match first {
            Pong::Serves => (Phase::Up, Probe::None),
            Pong::Refuses => (Phase::Slow, Probe::Pausing(FIRST_PAUSE)),
        };
        Self { phase, probe, timeout: TIMEOUT, pause: FIRST_PAUSE, silent: Duration::ZERO }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// A call waited for `timeout`, in vain; or was told that the server does not serve.
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

    /// The time of [`tick_in`](Self::tick_in) is over, and it was tried to read; `heard` if a byte has come since the last
    /// tick.
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

    /// The PING was answered.
    pub(super) fn pong(&mut self, pong: Pong) {
        let Probe::Waiting(waited) = self.probe else { return };
        match pong {
            Pong::Serves if waited < self.timeout => {
                self.phase = Phase::Up;
                self.probe = Probe::None;
                self.pause = FIRST_PAUSE;
            }
            // Late. The next one may not be.
            Pong::Serves => self.probe = Probe::Pausing(SHORTEST_TICK),
            Pong::Refuses => {
                self.phase = Phase::Slow;
                self.probe = Probe::Pausing(self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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
    fn pass(state: &mut State, time: Duration, heard: bool) -> Action {
        let mut passed = Duration::ZERO;
        while passed < time {
            let Some(tick) = state.tick_in() else { return Action::Nothing };
            passed += tick;
            match state.tick(heard) {
                Action::Nothing => {}
                action => return action,
            }
        }
        Action::Nothing
    }

    fn up() -> State {
        State::new(Pong::Serves)
    }

    /// After a frozen server was noticed.
    fn slow() -> State {
        let mut state = up();
        assert_eq!(state.doubt(Some(TENTH * 10)), Action::SendPing);
        assert_eq!(pass(&mut state, TENTH * 10, false), Action::Nothing);
        assert_eq!(state.phase(), Phase::Slow);
        state
    }

    #[test]
    fn nothing_is_done_while_nobody_complains() {
        assert_eq!(up().tick_in(), None);
        assert_eq!(up().phase(), Phase::Up);
    }

    #[test]
    fn a_lost_call_costs_one_ping() {
        let mut state = up();
        assert_eq!(state.doubt(Some(TENTH * 10)), Action::SendPing);
        assert_eq!(state.doubt(Some(TENTH * 10)), Action::Nothing, "one at a time");
        assert_eq!(pass(&mut state, TENTH * 9, false), Action::Nothing);
        state.pong(Pong::Serves);
        assert_eq!((state.phase(), state.tick_in()), (Phase::Up, None));
        assert_eq!(state.doubt(Some(TENTH * 10)), Action::SendPing);
    }

    #[test]
    fn a_ping_that_is_not_answered_in_time_makes_it_slow_and_one_that_is_up() {
        let mut state = slow();
        assert_eq!(state.doubt(Some(TENTH * 10)), Action::Nothing, "it is known");
        state.pong(Pong::Serves);
        assert_eq!(state.phase(), Phase::Slow, "that was late");
        assert_eq!(pass(&mut state, TENTH, true), Action::SendPing);
        state.pong(Pong::Serves);
        assert_eq!((state.phase(), state.tick_in()), (Phase::Up, None));
    }

    #[test]
    fn silence_ends_the_connection() {
        let mut state = slow();
        assert_eq!(pass(&mut state, TENTH * 189, false), Action::Nothing);
        assert_eq!(pass(&mut state, TENTH, false), Action::GiveUp);
    }

    #[test]
    fn a_server_that_says_anything_is_kept() {
        let mut state = slow();
        assert_eq!(pass(&mut state, 3 * SILENCE, true), Action::Nothing);
        assert_eq!(state.phase(), Phase::Slow);
    }

    #[test]
    fn one_that_refuses_is_asked_again_with_pauses() {
        let mut state = State::new(Pong::Refuses);
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert_eq!(state.phase(), Phase::Slow);
            waits.push(state.tick_in());
            assert_eq!(state.tick(false), Action::SendPing);
            state.pong(Pong::Refuses);
        }
        assert_eq!(waits.first(), Some(&Some(FIRST_PAUSE)));
        assert_eq!(waits.last(), Some(&Some(LONGEST_PAUSE)));
        assert!(waits.is_sorted());
        assert_eq!(state.tick(false), Action::SendPing);
        state.pong(Pong::Serves);
        assert_eq!(state.phase(), Phase::Up);
        // The next time starts with a short pause again.
        assert_eq!(state.doubt(Some(TENTH)), Action::SendPing);
        state.pong(Pong::Refuses);
        assert_eq!(state.tick_in(), Some(FIRST_PAUSE));
    }

    #[test]
    fn ticks_are_never_shorter_than_timers_can_tell_nor_coarse() {
        for (timeout, tick) in [(0, 1), (5, 1), (100, 10), (400, 40), (60_000, 50)] {
            let mut state = up();
            assert_eq!(state.doubt(Some(Duration::from_millis(timeout))), Action::SendPing);
            assert_eq!(state.tick_in(), Some(Duration::from_millis(tick)));
        }
    }
}

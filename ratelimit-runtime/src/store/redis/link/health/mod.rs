//! [`LinkHealth`]: how a server is, and what its link does next. No I/O: events and the time go in,
//! actions come out.
//!
//! | state | a call | left when |
//! | --- | --- | --- |
//! | connecting | waits | the attempt succeeds: up; it fails, or has taken the limiter's timeout: down |
//! | up | is sent | a PING is not answered in time, or by BUSY, LOADING, …: slow; the connection ends: connecting |
//! | slow | fails at once; PINGs go on, one at a time | a PING is answered in time: up; the connection ends: down |
//! | down | fails at once; attempts to connect go on | one succeeds: up |
//!
//! A connection that gives no byte for [`SILENCE`] while a PING is unanswered is given up.

use std::time::{Duration, Instant};

use crate::store::redis::backoff::Backoff;

/// A connection without a byte for this long, while a PING is unanswered, is given up.
const SILENCE: Duration = Duration::from_secs(2);
/// The time between two PINGs on a connection in use.
const HEARTBEAT: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasts this long was good: the next attempt begins at once.
const STABLE: Duration = Duration::from_millis(100);
/// A task that wakes later than this is on a runtime that stood still.
const LATE: Duration = Duration::from_millis(5);
/// A timeout below this is none that a server is measured by.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

/// What callers are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Connecting,
    Up,
    Slow,
    Down,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Connected(PingAnswer),
    /// An attempt has failed, or the server has turned out to be a replica.
    Failed,
    /// The connection has ended. `used` if a call was sent on it since the last PING.
    Ended {
        used: bool,
    },
    /// Another server is the master now; the connection has been ended.
    Moved,
    /// A call has waited in vain for the limiter's timeout, or was told that the server is busy.
    Doubt,
    /// The PING was answered.
    Answered(PingAnswer),
    /// A call wants a connection.
    Wanted,
}

/// The answer to a PING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PingAnswer {
    Serves,
    /// BUSY, LOADING, MISCONF or MASTERDOWN.
    Busy,
}

/// What the link is to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Connect,
    Ping,
    HangUp,
}

/// How a server is, and what its link does next.
#[derive(Debug)]
pub(super) struct LinkHealth {
    /// The limiter's timeout.
    timeout: Duration,
    state: LinkState,
    phase: Phase,
    /// Pauses since the last connection that was good.
    backoff: Backoff,
    /// When `due` asked to be called again.
    wake: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    /// The next attempt begins then.
    Pausing(Instant),
    /// An attempt has been under way since then.
    Connecting(Instant),
    /// The connection was closed while no call used it. The next call makes another.
    Idle,
    Connected(Connected),
}

#[derive(Debug)]
struct Connected {
    since: Instant,
    /// The one PING on its way.
    ping: Option<Ping>,
    /// A PING is to be sent at once.
    doubt: bool,
    /// The earliest time of the next PING.
    next: Instant,
}

/// Times during which the runtime stood still are added to all of these.
#[derive(Debug)]
struct Ping {
    sent: Instant,
    /// Without an answer by then, the server is slow.
    late: Instant,
    /// Silence before this does not count.
    silent: Instant,
    /// The runtime stood still, and has been given the time to read once.
    spared: bool,
}

impl LinkHealth {
    pub(super) fn new(timeout: Duration, now: Instant) -> Self {
        let backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let timeout = timeout.max(SHORTEST_TIMEOUT);
        Self { timeout, state: LinkState::Connecting, phase: Phase::Pausing(now), backoff, wake: None }
    }

    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.max(SHORTEST_TIMEOUT);
    }

    pub(super) fn state(&self) -> LinkState {
        self.state
    }

    /// Whether nothing is done until a call wants a connection.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Whether the link waits for the server, in real time.
    pub(super) fn is_waiting(&self) -> bool {
        !matches!(&self.phase, Phase::Idle | Phase::Connected(Connected { ping: None, .. }))
    }

    pub(super) fn on(&mut self, event: Event, now: Instant) {
        let is_stable = match &self.phase {
            Phase::Connected(Connected { since, .. }) => now.saturating_duration_since(*since) >= STABLE,
            _ => false,
        };
        if is_stable {
            self.backoff.reset();
        }
        match (event, &mut self.phase) {
            (Event::Connected(answer), _) => {
                let (state, next) = match answer {
                    PingAnswer::Serves => (LinkState::Up, now + HEARTBEAT),
                    PingAnswer::Busy => (LinkState::Slow, now + self.timeout),
                };
                self.state = state;
                self.phase = Phase::Connected(Connected { since: now, ping: None, doubt: false, next });
            }
            (Event::Failed, _) => {
                self.state = LinkState::Down;
                self.phase = Phase::Pausing(now + self.backoff.pause());
            }
            (Event::Ended { used }, Phase::Connected(_)) => {
                let was_up = self.state == LinkState::Up;
                // Calls of a slow server do not wait, and must not begin to; nor those of a server
                // that takes connections and ends them at once.
                self.state = if was_up && self.backoff.is_fresh() { LinkState::Connecting } else { LinkState::Down };
                self.phase = match (is_stable, was_up && !used) {
                    (true, true) => Phase::Idle,
                    (true, false) => Phase::Pausing(now),
                    (false, _) => Phase::Pausing(now + self.backoff.pause()),
                };
            }
            (Event::Moved, Phase::Connected(_)) => {
                self.state = if self.state == LinkState::Up { LinkState::Connecting } else { LinkState::Down };
                self.phase = Phase::Pausing(now);
            }
            (Event::Doubt, Phase::Connected(connected)) if self.state == LinkState::Up => match &mut connected.ping {
                Some(ping) => ping.late = ping.late.min(now + self.timeout),
                None => connected.doubt = true,
            },
            (Event::Answered(answer), Phase::Connected(connected)) => {
                let Some(ping) = connected.ping.take() else { return };
                match answer {
                    PingAnswer::Serves if now <= ping.sent + self.timeout || self.state == LinkState::Up => {
                        self.state = LinkState::Up;
                        connected.next = ping.sent + HEARTBEAT;
                    }
                    // It came late: the next one may come in time.
                    PingAnswer::Serves => connected.next = now,
                    PingAnswer::Busy => {
                        self.state = LinkState::Slow;
                        connected.next = now + self.timeout;
                    }
                }
            }
            (Event::Wanted, phase @ Phase::Idle) => *phase = Phase::Pausing(now),
            (Event::Ended { .. } | Event::Moved | Event::Doubt | Event::Answered(_) | Event::Wanted, _) => {}
        }
    }

    /// The next action, and the time at which to ask again at the latest. `last_byte` is when bytes
    /// last came, `used` whether a call was sent since the last PING.
    pub(super) fn due(&mut self, now: Instant, last_byte: Instant, used: bool) -> (Option<Action>, Option<Instant>) {
        if let Some(overslept) = self.wake.map(|wake| now.saturating_duration_since(wake)).filter(|late| *late > LATE) {
            self.forgive(now, overslept);
        }
        let (action, wake) = match &mut self.phase {
            Phase::Idle => (None, None),
            Phase::Pausing(until) if *until > now => (None, Some(*until)),
            Phase::Pausing(_) => {
                self.phase = Phase::Connecting(now);
                (Some(Action::Connect), Some(now + self.timeout))
            }
            Phase::Connecting(since) => {
                let late = *since + self.timeout;
                if self.state == LinkState::Connecting && late <= now {
                    self.state = LinkState::Down;
                }
                (None, (self.state == LinkState::Connecting).then_some(late))
            }
            Phase::Connected(connected) => connected.due(&mut self.state, self.timeout, now, last_byte, used),
        };
        self.wake = wake;
        (action, wake)
    }

    /// Does not count the time during which the runtime stood still: it could not read.
    fn forgive(&mut self, now: Instant, overslept: Duration) {
        match &mut self.phase {
            Phase::Connecting(since) => *since += overslept,
            Phase::Connected(Connected { ping: Some(ping), .. }) => {
                for time in [&mut ping.sent, &mut ping.late, &mut ping.silent] {
                    *time += overslept;
                }
                // What has come meanwhile is read before the server is judged.
                if !std::mem::replace(&mut ping.spared, true) {
                    ping.late = ping.late.max(now + self.timeout / 10);
                }
            }
            Phase::Idle | Phase::Pausing(_) | Phase::Connected(_) => {}
        }
    }
}

impl Connected {
    fn due(
        &mut self,
        state: &mut LinkState,
        timeout: Duration,
        now: Instant,
        last_byte: Instant,
        used: bool,
    ) -> (Option<Action>, Option<Instant>) {
        let is_slow = *state == LinkState::Slow;
        if let Some(ping) = &self.ping {
            let silence = ping.silent.max(last_byte) + SILENCE;
            if silence <= now {
                return (Some(Action::HangUp), None);
            }
            if ping.late <= now {
                *state = LinkState::Slow;
            }
            let late = (*state == LinkState::Up).then_some(ping.late);
            return (None, Some(late.map_or(silence, |late| late.min(silence))));
        }
        if !self.doubt && self.next > now {
            return (None, Some(self.next));
        }
        if !(self.doubt || used || is_slow) {
            // Looked at now and then: the end of an idle connection is told by itself.
            return (None, Some(now + HEARTBEAT));
        }
        // A heartbeat has the time of a call that waits in vain and of the PING behind it.
        let wait = if self.doubt || is_slow { timeout } else { 2 * timeout };
        self.doubt = false;
        self.ping = Some(Ping { sent: now, late: now + wait, silent: now, spared: false });
        (Some(Action::Ping), Some(now + wait.min(SILENCE)))
    }
}

#[cfg(test)]
mod tests;

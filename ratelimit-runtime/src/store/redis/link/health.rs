//! [`LinkHealth`]: the state of a link's server, and the link's next action. It has no I/O: events
//! and the time go in, actions come out.
//!
//! | state | a call | left when |
//! | --- | --- | --- |
//! | connecting | waits | the attempt succeeds: up; it fails, or has taken the limiter's timeout: down |
//! | up | is sent | a PING is not answered in time, or by BUSY, LOADING, …: slow; the connection ends: connecting (down, if it was short, after other failures) |
//! | slow | fails at once; PINGs go on, one at a time | a PING is answered in time: up; the connection ends: down |
//! | down | fails at once; attempts go on | one succeeds: up; the runtime rested: connecting |
//!
//! A connection without a reply for [`SILENCE`] while a PING is unanswered is ended.

use std::time::{Duration, Instant};

pub(super) use crate::observe::ConnectionState as LinkState;
use crate::pace::Backoff;

/// The time without a reply, while a PING is unanswered, after which a connection is ended.
const SILENCE: Duration = Duration::from_secs(2);
/// The time between two PINGs on a connection in use.
const HEARTBEAT: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasts this long was good: after its end the next attempt begins at once.
const STABLE: Duration = Duration::from_millis(100);
/// The time without a turn of the link's task after which its runtime ran only during calls.
const RESTED: Duration = Duration::from_millis(100);
/// The shortest timeout by which a server is measured.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

/// An action of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Connect,
    Ping,
    HangUp,
}

/// The state of a link's server, and the link's next action.
#[derive(Debug)]
pub(super) struct LinkHealth {
    /// The limiter's timeout.
    timeout: Duration,
    state: LinkState,
    /// The pauses since the last good connection.
    backoff: Backoff,
    /// The time of the next attempt; `None` during an attempt or a connection.
    connect_at: Option<Instant>,
    /// The start of the attempt or the connection.
    since: Instant,
    /// The only PING that is not answered yet.
    ping: Option<Ping>,
    /// `true` if a PING is to be sent at once.
    doubt: bool,
    /// The earliest time of the next PING.
    next_ping: Instant,
}

#[derive(Debug)]
struct Ping {
    sent: Instant,
    /// The time from which on the server counts as slow without an answer.
    late: Instant,
}

impl LinkHealth {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            timeout: SHORTEST_TIMEOUT,
            state: LinkState::Connecting,
            backoff: Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE),
            connect_at: Some(now),
            since: now,
            ping: None,
            doubt: false,
            next_ping: now,
        }
    }

    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.max(SHORTEST_TIMEOUT);
    }

    pub(super) fn state(&self) -> LinkState {
        self.state
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, LinkState::Up | LinkState::Slow)
    }

    pub(super) fn connected(&mut self, now: Instant) {
        (self.state, self.next_ping) = (LinkState::Up, now + HEARTBEAT);
        (self.since, self.connect_at, self.ping, self.doubt) = (now, None, None, false);
    }

    /// Records that the connection has ended, or the attempt has failed.
    pub(super) fn ended(&mut self, now: Instant) {
        let was_good = self.is_connected() && now.saturating_duration_since(self.since) >= STABLE;
        if was_good {
            self.backoff.reset();
        }
        // Calls of a slow server do not wait, and must not begin to; nor those of a server that
        // takes connections and ends them at once.
        let is_waited_for = self.state == LinkState::Up && self.backoff.is_fresh();
        self.state = if is_waited_for {
            LinkState::Connecting
        } else {
            LinkState::Down
        };
        self.connect_at = Some(if was_good {
            now
        } else {
            now + self.backoff.pause()
        });
    }

    /// Records a time for which the runtime was not driven: no delay of the server's.
    pub(super) fn rested(&mut self, time: Duration, now: Instant) {
        if let Some(ping) = &mut self.ping {
            ping.late += time;
        } else if !self.is_connected() {
            self.since += time;
            // Only a caller that waits for the attempt drives it.
            if time >= RESTED && self.connect_at.is_none_or(|at| at <= now) {
                (self.state, self.since) = (LinkState::Connecting, now);
            }
        }
    }

    /// Records that a call waited in vain for the limiter's timeout, or that the server replied
    /// busy.
    pub(super) fn doubted(&mut self, now: Instant) {
        match &mut self.ping {
            _ if self.state != LinkState::Up => {}
            Some(ping) => ping.late = ping.late.min(now + self.timeout),
            None => self.doubt = true,
        }
    }

    /// Records that the PING, or the probe of a new connection, was answered: the server serves.
    pub(super) fn answered(&mut self, now: Instant) {
        let Some(ping) = self.ping.take() else { return };
        if self.state == LinkState::Up || now <= ping.late {
            (self.state, self.next_ping) = (LinkState::Up, ping.sent + HEARTBEAT);
        } else {
            // It came late: the next one may come in time.
            self.next_ping = now;
        }
    }

    /// Records that the server replied BUSY, LOADING or MISCONF.
    pub(super) fn busy(&mut self, now: Instant) {
        (self.state, self.next_ping, self.ping) =
            (LinkState::Slow, now + self.timeout.min(HEARTBEAT / 2), None);
    }

    /// The next action, and the latest time for the next call of this. `last_reply` is when the
    /// last reply arrived, `used` whether a call was sent since the last PING.
    pub(super) fn due(
        &mut self,
        now: Instant,
        last_reply: Instant,
        used: bool,
    ) -> (Option<Action>, Option<Instant>) {
        match self.connect_at {
            _ if self.is_connected() => self.due_connected(now, last_reply, used),
            Some(at) if at > now => (None, Some(at)),
            Some(_) => {
                (self.since, self.connect_at) = (now, None);
                (Some(Action::Connect), Some(now + self.timeout))
            }
            None => {
                let late = self.since + self.timeout;
                if late <= now {
                    self.state = LinkState::Down;
                }
                (None, (self.state == LinkState::Connecting).then_some(late))
            }
        }
    }

    fn due_connected(
        &mut self,
        now: Instant,
        last_reply: Instant,
        used: bool,
    ) -> (Option<Action>, Option<Instant>) {
        if let Some(ping) = &self.ping {
            let silence = ping.sent.max(last_reply) + SILENCE;
            if silence <= now {
                return (Some(Action::HangUp), Some(now));
            }
            if ping.late <= now {
                self.state = LinkState::Slow;
            }
            let late = (self.state == LinkState::Up).then_some(ping.late);
            return (None, Some(late.map_or(silence, |late| late.min(silence))));
        }
        if !self.doubt && self.next_ping > now {
            return (None, Some(self.next_ping));
        }
        let is_slow = self.state == LinkState::Slow;
        if !(self.doubt || used || is_slow) {
            // Looked at now and then: the end of an idle connection is told by itself.
            return (None, Some(now + HEARTBEAT));
        }
        // A heartbeat has the time of a call that waits in vain and of the PING behind it.
        let wait = if self.doubt || is_slow {
            self.timeout
        } else {
            2 * self.timeout
        };
        self.doubt = false;
        self.ping = Some(Ping {
            sent: now,
            late: now + wait,
        });
        (Some(Action::Ping), Some(now + wait.min(SILENCE)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests;

//! [`Redirect`]: what a node of a cluster replies instead of carrying out a call; [`Detour`]: what
//! becomes of the call then.

use std::time::{Duration, Instant};

use redis::ServerError;

use super::node::NodeAddress;
use super::slot::Slot;
use crate::error::StoreError;
use crate::store::redis::errors;

/// How often a call is sent on to another node.
const MAX_REDIRECTS: u32 = 8;

/// How long a call that no node can carry out now waits before it is sent again, each time: 35 ms
/// in all.
const PAUSES: [Duration; 3] = [Duration::from_millis(5), Duration::from_millis(10), Duration::from_millis(20)];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// From now on another node serves the slot; `None` if it is not known which.
    Moved(Option<NodeAddress>),
    /// For this one call, another node is to be asked.
    Ask(Option<NodeAddress>),
    /// The keys of the call are half here, half there.
    TryAgain,
    /// No node serves the slot.
    Unserved,
    /// This node serves nothing.
    Down,
}

impl Redirect {
    /// What an error of the node at the host `asked` means for a call about this slot; `None` if it
    /// is no redirect.
    pub(super) fn of(error: &ServerError, slot: Slot, asked: &str) -> Option<Self> {
        let details = error.details().unwrap_or_default();
        match errors::code(error) {
            "MOVED" => Some(Self::Moved(place(details, slot, asked))),
            "ASK" => Some(Self::Ask(place(details, slot, asked))),
            "TRYAGAIN" => Some(Self::TryAgain),
            // The other one is that of the whole node, in every version.
            "CLUSTERDOWN" if details.contains("slot") => Some(Self::Unserved),
            "CLUSTERDOWN" => Some(Self::Down),
            _ => None,
        }
    }
}

/// The address in `3999 127.0.0.1:6381`, if that is about this slot.
fn place(details: &str, slot: Slot, asked: &str) -> Option<NodeAddress> {
    let mut words = details.split(' ');
    let named = Slot::numbered(words.next()?.parse().ok()?)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    NodeAddress::replied_by(asked, host, port.parse().ok()?).filter(|_| named == slot)
}

/// Where a call goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To this node, which serves the slot.
    Moved(NodeAddress),
    /// To this node, behind an `ASKING`.
    Asking(NodeAddress),
    /// After this pause to the master of the slot, whichever that is by then.
    Again(Duration),
}

/// How far a call has been sent round. It ends: every step is counted.
#[derive(Debug)]
pub(super) struct Detour {
    until: Option<Instant>,
    redirects: u32,
    pauses: usize,
}

impl Detour {
    /// Of a call that has this long.
    pub(super) fn new(until: Option<Instant>) -> Self {
        Self { until, redirects: 0, pauses: 0 }
    }

    /// What to do about a redirect.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the call has been sent round enough, or has no time for another pause.
    pub(super) fn step(&mut self, redirect: Redirect, now: Instant) -> Result<Step, StoreError> {
        let why = match redirect {
            Redirect::Moved(Some(to)) => return self.redirected(Step::Moved(to)),
            Redirect::Ask(Some(to)) => return self.redirected(Step::Asking(to)),
            Redirect::Moved(None) | Redirect::Ask(None) | Redirect::TryAgain => "the Redis cluster is moving this key",
            Redirect::Unserved => UNSERVED,
            Redirect::Down => DOWN,
        };
        let pause = PAUSES.get(self.pauses).filter(|pause| self.until.is_none_or(|until| now + **pause * 2 <= until));
        self.pauses += 1;
        pause.map(|pause| Step::Again(*pause)).ok_or_else(|| StoreError::unavailable(why))
    }

    fn redirected(&mut self, step: Step) -> Result<Step, StoreError> {
        self.redirects += 1;
        if self.redirects > MAX_REDIRECTS {
            return Err(StoreError::unavailable("the nodes of the Redis cluster send a call from one to the other"));
        }
        Ok(step)
    }
}

pub(super) const UNSERVED: &str = "no node of the Redis cluster serves the slot of this key";
pub(super) const DOWN: &str = "the Redis cluster is down: not enough of its masters can be reached";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

    use redis::{Value, parse_redis_value};

    use super::*;

    fn node(host: &str) -> NodeAddress {
        NodeAddress { host: host.to_owned(), port: 6381 }
    }

    #[test]
    fn replies() {
        let said = |reply: &str| match parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => Redirect::of(&error, Slot::numbered(3999).unwrap(), "asked"),
            other => panic!("not an error: {other:?}"),
        };
        let at = |host| Some(node(host));
        for (reply, expected) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirect::Moved(at("127.0.0.1")))),
            ("MOVED 3999 ::1:6381", Some(Redirect::Moved(at("::1")))),
            ("MOVED 3999 node-1.example.com:6381", Some(Redirect::Moved(at("node-1.example.com")))),
            ("MOVED 3999 :6381", Some(Redirect::Moved(at("asked")))),
            ("MOVED 3999 ?:6381", Some(Redirect::Moved(None))),
            ("ASK 3999 127.0.0.1:6381", Some(Redirect::Ask(at("127.0.0.1")))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirect::TryAgain)),
            ("CLUSTERDOWN Hash slot not served", Some(Redirect::Unserved)),
            ("CLUSTERDOWN The cluster is down", Some(Redirect::Down)),
            ("CLUSTERDOWN The cluster is down and only accepts read commands", Some(Redirect::Down)),
            ("MOVED 4000 127.0.0.1:6381", Some(Redirect::Moved(None))),
            ("MOVED 16384 127.0.0.1:6381", Some(Redirect::Moved(None))),
            ("MOVED x 127.0.0.1:6381", Some(Redirect::Moved(None))),
            ("ASK 3999 127.0.0.1:0", Some(Redirect::Ask(None))),
            ("ASK 3999 127.0.0.1", Some(Redirect::Ask(None))),
            ("MOVED", Some(Redirect::Moved(None))),
            ("OOM command not allowed when used memory > 'maxmemory'.", None),
            ("CROSSSLOT Keys in request don't hash to the same slot", None),
        ] {
            assert_eq!(said(reply), expected, "{reply}");
        }
    }

    #[test]
    fn a_call_is_sent_on_eight_times_and_again_for_35_ms() {
        let now = Instant::now();
        let mut detour = Detour::new(None);
        let mut step = |redirect| detour.step(redirect, now);
        for _ in 0..4 {
            assert_eq!(step(Redirect::Moved(Some(node("a")))).ok(), Some(Step::Moved(node("a"))));
            assert_eq!(step(Redirect::Ask(Some(node("b")))).ok(), Some(Step::Asking(node("b"))));
        }
        let error = step(Redirect::Moved(Some(node("a")))).unwrap_err();
        assert!(error.message().contains("from one to the other") && !error.is_lost());
        for (redirect, millis) in [(Redirect::TryAgain, 5), (Redirect::Ask(None), 10), (Redirect::Moved(None), 20)] {
            assert_eq!(step(redirect).ok(), Some(Step::Again(Duration::from_millis(millis))));
        }
        assert_eq!(step(Redirect::Down).unwrap_err().message(), DOWN);

        let mut detour = Detour::new(Some(now + Duration::from_millis(15)));
        assert_eq!(detour.step(Redirect::Unserved, now).ok(), Some(Step::Again(PAUSES[0])));
        assert_eq!(
            detour.step(Redirect::Unserved, now + PAUSES[0]).unwrap_err().message(),
            UNSERVED,
            "no time is left"
        );
    }
}

//! [`Redirect`]: what a node of a cluster answers instead of carrying out a command.

use redis::ServerError;

use super::master::NodeAddress;
use crate::store::redis::errors;
use crate::store::redis::wire::slot::Slot;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// From now on another node serves the slot; `None` if it is not known which.
    Moved(Slot, Option<NodeAddress>),
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
    /// What an error of the node at the host `asked` means; `None` if it is no redirect.
    pub(crate) fn of(error: &ServerError, asked: &str) -> Option<Self> {
        let details = error.details().unwrap_or_default();
        match errors::code(error) {
            "MOVED" => {
                let (slot, place) = place(details, asked)?;
                Some(Self::Moved(slot, place))
            }
            "ASK" => place(details, asked).map(|(_, place)| Self::Ask(place)),
            "TRYAGAIN" => Some(Self::TryAgain),
            // The other one is that of the whole node, in every version.
            "CLUSTERDOWN" if details.contains("slot") => Some(Self::Unserved),
            "CLUSTERDOWN" => Some(Self::Down),
            _ => None,
        }
    }
}

/// `3999 127.0.0.1:6381`
fn place(details: &str, asked: &str) -> Option<(Slot, Option<NodeAddress>)> {
    let mut words = details.split(' ');
    let slot = Slot::numbered(words.next()?.parse().ok()?)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((slot, NodeAddress::answered_by(asked, host, port.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

    use redis::{Value, parse_redis_value};

    use super::*;

    #[test]
    fn replies() {
        let said = |reply: &str| match parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => Redirect::of(&error, "asked"),
            other => panic!("not an error: {other:?}"),
        };
        let at = |host: &str| Some(NodeAddress { host: host.to_owned(), port: 6381 });
        let slot = || Slot::numbered(3999).unwrap();
        for (reply, expected) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirect::Moved(slot(), at("127.0.0.1")))),
            ("MOVED 3999 ::1:6381", Some(Redirect::Moved(slot(), at("::1")))),
            ("MOVED 3999 node-1.example.com:6381", Some(Redirect::Moved(slot(), at("node-1.example.com")))),
            ("MOVED 3999 :6381", Some(Redirect::Moved(slot(), at("asked")))),
            ("MOVED 3999 ?:6381", Some(Redirect::Moved(slot(), None))),
            ("ASK 3999 127.0.0.1:6381", Some(Redirect::Ask(at("127.0.0.1")))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirect::TryAgain)),
            ("CLUSTERDOWN Hash slot not served", Some(Redirect::Unserved)),
            ("CLUSTERDOWN The cluster is down", Some(Redirect::Down)),
            ("CLUSTERDOWN The cluster is down and only accepts read commands", Some(Redirect::Down)),
            ("MOVED 16384 127.0.0.1:6381", None),
            ("MOVED x 127.0.0.1:6381", None),
            ("MOVED 1 127.0.0.1", None),
            ("MOVED", None),
            ("OOM command not allowed when used memory > 'maxmemory'.", None),
            ("CROSSSLOT Keys in request don't hash to the same slot", None),
        ] {
            assert_eq!(said(reply), expected, "{reply}");
        }
    }
}

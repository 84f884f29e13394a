//! [`Redirect`]: what a node of a cluster replies instead of carrying out a call.

use redis::ServerError;

use super::slot::Slot;
use crate::store::redis::errors;
use crate::store::redis::settings::server::TcpAddress;

pub(super) const DOWN: &str = "the Redis cluster is down: not enough of its masters can be reached";
pub(super) const MOVING: &str = "the Redis cluster is moving this key";
pub(super) const UNSERVED: &str = "no node of the Redis cluster serves the slot of this key";

#[derive(Debug)]
pub(super) enum Redirect {
    /// From now on this node serves the slot.
    Moved(TcpAddress),
    /// For this one call, this node is to be asked, behind an `ASKING`.
    Ask(TcpAddress),
    /// No node carries the call out now, for this reason: the keys of the call are half here and
    /// half there, or no node serves the slot, or it is not known which.
    NotNow(&'static str),
    /// This node serves nothing.
    Down,
}

impl Redirect {
    /// What an error of the node at the host `asked` means for a call about this slot; `None` if it
    /// is no redirect.
    pub(super) fn of(error: &ServerError, slot: Slot, asked: &str) -> Option<Self> {
        let details = error.details().unwrap_or_default();
        let at = |redirect: fn(TcpAddress) -> Self| place(details, slot, asked).map_or(Self::NotNow(MOVING), redirect);
        match errors::code(error) {
            "MOVED" => Some(at(Self::Moved)),
            "ASK" => Some(at(Self::Ask)),
            "TRYAGAIN" => Some(Self::NotNow(MOVING)),
            // The other one is that of the whole node, in every version.
            "CLUSTERDOWN" if details.contains("slot") => Some(Self::NotNow(UNSERVED)),
            "CLUSTERDOWN" => Some(Self::Down),
            _ => None,
        }
    }
}

/// The address in `3999 127.0.0.1:6381`, if that is about this slot.
fn place(details: &str, slot: Slot, asked: &str) -> Option<TcpAddress> {
    let mut words = details.split(' ');
    let named = Slot::numbered(words.next()?.parse().ok()?)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    replied_by(asked, host, port.parse().ok()?).filter(|_| named == slot)
}

/// The address in a reply of the node at the host `asked`. A node that does not know its own host
/// leaves it out; `?` stands for one that is not known, as does the port 0.
pub(super) fn replied_by(asked: &str, host: &str, port: u16) -> Option<TcpAddress> {
    let host = if host.is_empty() { asked } else { host };
    (host != "?" && port != 0).then(|| TcpAddress { host: host.to_owned(), port })
}

//! [`Redirect`]: the reply of a cluster's node that does not carry a call out, and says which node
//! does, from now on or this once.

use redis::ServerError;

use crate::store::redis::errors;
use crate::store::redis::settings::server::TcpAddress;

pub(super) enum Redirect {
    /// This node serves the slot from now on.
    Moved(TcpAddress),
    /// This node decides this one call, after an `ASKING`.
    Ask(TcpAddress),
    /// No node carries the call out now: its keys are partly moved, or the slot's node is not
    /// known.
    NotNow,
}

impl Redirect {
    /// The redirect in an error that the node at the host `asked` gave to a call for this slot;
    /// `None` if the error is no redirect.
    pub(super) fn of(error: &ServerError, slot: u16, asked: &str) -> Option<Self> {
        let details = error.details().unwrap_or_default();
        let at = |redirect: fn(TcpAddress) -> Self| {
            place(details, slot, asked).map_or(Self::NotNow, redirect)
        };
        match errors::code(error) {
            "MOVED" => Some(at(Self::Moved)),
            "ASK" => Some(at(Self::Ask)),
            "TRYAGAIN" => Some(Self::NotNow),
            _ => None,
        }
    }
}

/// The address in `3999 127.0.0.1:6381`, if that is about this slot.
fn place(details: &str, slot: u16, asked: &str) -> Option<TcpAddress> {
    let mut words = details.split(' ');
    let named: u16 = words.next()?.parse().ok()?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    replied_by(asked, host, port.parse().ok()?).filter(|_| named == slot)
}

/// The address in a reply of the node at the host `asked`. A node that does not know its own host
/// leaves it out; `?` stands for an unknown host, and the port 0 for an unknown port.
pub(super) fn replied_by(asked: &str, host: &str, port: u16) -> Option<TcpAddress> {
    let host = if host.is_empty() { asked } else { host };
    (host != "?" && port != 0).then(|| TcpAddress {
        host: host.to_owned(),
        port,
    })
}

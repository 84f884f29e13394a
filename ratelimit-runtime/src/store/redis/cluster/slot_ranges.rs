//! [`SlotRange`]: what a node replies to `CLUSTER SLOTS`, as far as it can be believed.

use redis::Value;

use super::node::NodeAddress;
use super::slot::SLOTS;

/// Slots from one up to another, both included, and the master of all of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) master: NodeAddress,
}

/// The ranges in a reply to `CLUSTER SLOTS` of the node at the host `asked`. Ranges whose master
/// has no known address are left out. `None` if this is no such reply.
pub(crate) fn slot_ranges(reply: &Value, asked: &str) -> Option<Vec<SlotRange>> {
    let Value::Array(ranges) = reply else { return None };
    let (mut all, mut left) = (Vec::new(), SLOTS);
    for range in ranges {
        let Value::Array(parts) = range else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else { return None };
        let [host, Value::Int(port), ..] = master.as_slice() else { return None };
        let number = |number: &i64| u16::try_from(*number).ok();
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= SLOTS {
            return None;
        }
        // They do not overlap; so there are no more of them than slots.
        left = left.checked_sub(last - first + 1)?;
        let host = match host {
            Value::Nil => "",
            Value::BulkString(host) => std::str::from_utf8(host).ok()?,
            Value::SimpleString(host) => host,
            _ => return None,
        };
        let master = NodeAddress::replied_by(asked, host, number(port)?);
        all.extend(master.map(|master| SlotRange { first, last, master }));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use redis::parse_redis_value;

    use super::*;

    #[test]
    fn replies() {
        let said = |reply: &str| slot_ranges(&parse_redis_value(reply.as_bytes()).unwrap(), "asked");
        let from = |host: &str| {
            let master = NodeAddress { host: host.to_owned(), port: 7000 };
            Some(vec![SlotRange { first: 0, last: 5, master }])
        };
        assert_eq!(said("*0\r\n"), Some(vec![]));
        let one = |host: &str| format!("*1\r\n*3\r\n:0\r\n:5\r\n*3\r\n{host}\r\n:7000\r\n$2\r\nid\r\n");
        assert_eq!(said(&one("$9\r\n127.0.0.1")), from("127.0.0.1"));
        assert_eq!(said(&one("$0\r\n")), from("asked"));
        assert_eq!(said(&one("$-1")), from("asked"));
        assert_eq!(said(&one("$1\r\n?")), Some(vec![]), "the node does not know where");
        assert_eq!(said("*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\nh\r\n:0\r\n"), Some(vec![]), "nor the port");
        for nonsense in [
            ":1\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n*2\r\n:0\r\n:5\r\n",
            "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:-1\r\n:5\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:6\r\n:5\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\nh\r\n:70000\r\n",
            "*1\r\n*3\r\n:0\r\n:5\r\n*1\r\n$1\r\nh\r\n",
            "*2\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nh\r\n:1\r\n*3\r\n:5\r\n:5\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        ] {
            assert_eq!(said(nonsense), None, "{nonsense:?}");
        }
    }
}

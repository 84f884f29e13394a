//! [`SlotMap`]: which master serves which slot, as far as is known. It is never changed, only
//! replaced.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;

use super::master::{Master, NodeAddress};
use crate::store::redis::wire::slot::{SLOTS, Slot};

/// A master that has no slots yet, and when it was heard of.
type Newcomer = (Arc<Master>, Instant);

pub(super) struct SlotMap {
    /// For each slot the index of its master; [`UNSERVED`] for none.
    owners: Box<[u16]>,
    masters: Vec<Arc<Master>>,
    /// Nodes that slots are moving to, which others still serve.
    newcomers: Vec<Newcomer>,
}

const UNSERVED: u16 = u16::MAX;

/// How many newcomers are known at most, and for how long.
const NEWCOMERS: usize = 16;
const NEW: Duration = Duration::from_secs(60);

/// Slots from one up to another, and the master of all of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: u16,
    last: u16,
    master: NodeAddress,
}

#[cfg(any(test, fuzzing))]
impl Range {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.last - self.first) + 1
    }
}

impl SlotMap {
    /// The map of these ranges. Masters that were known stay the same, with their connections.
    pub(crate) fn of(ranges: &[Range], known: Option<&Self>, new: impl Fn(&NodeAddress) -> Arc<Master>) -> Self {
        let mut map =
            Self { owners: vec![UNSERVED; usize::from(SLOTS)].into(), masters: Vec::new(), newcomers: Vec::new() };
        for range in ranges {
            let known = || known.and_then(|known| known.master(&range.master));
            let index = map.index_of(&range.master, || known().unwrap_or_else(|| new(&range.master)));
            for owner in map.owners.get_mut(usize::from(range.first)..=usize::from(range.last)).unwrap_or_default() {
                *owner = index;
            }
        }
        let newcomers = known.map_or(&[][..], |known| &known.newcomers);
        let newcomers = newcomers
            .iter()
            .filter(|(newcomer, since)| since.elapsed() < NEW && map.master(&newcomer.address).is_none());
        map.newcomers = newcomers.cloned().collect();
        map
    }

    /// The same, but that another master serves this slot, or none. Masters without slots are left
    /// out of the next whole map.
    pub(crate) fn with(&self, slot: Slot, owner: Option<&Arc<Master>>) -> Self {
        let mut map =
            Self { owners: self.owners.clone(), masters: self.masters.clone(), newcomers: self.newcomers.clone() };
        let index = owner.map_or(UNSERVED, |owner| map.index_of(&owner.address, || Arc::clone(owner)));
        if let Some(owner) = map.owners.get_mut(slot.index()) {
            *owner = index;
        }
        map
    }

    /// The same with a newcomer.
    pub(super) fn with_newcomer(&self, newcomer: &Arc<Master>) -> Self {
        let mut newcomers = self.newcomers.clone();
        if newcomers.len() >= NEWCOMERS {
            newcomers.remove(0);
        }
        newcomers.push((Arc::clone(newcomer), Instant::now()));
        Self { owners: self.owners.clone(), masters: self.masters.clone(), newcomers }
    }

    fn index_of(&mut self, address: &NodeAddress, master: impl FnOnce() -> Arc<Master>) -> u16 {
        let known = self.masters.iter().position(|known| known.address == *address);
        let index = known.unwrap_or_else(|| {
            self.masters.push(master());
            self.masters.len() - 1
        });
        // There are not so many servers.
        u16::try_from(index).unwrap_or(UNSERVED)
    }

    /// The master of a slot.
    pub(super) fn owner(&self, slot: Slot) -> Option<&Arc<Master>> {
        self.masters.get(usize::from(*self.owners.get(slot.index())?))
    }

    /// The master at an address, newcomers included.
    pub(crate) fn master(&self, address: &NodeAddress) -> Option<Arc<Master>> {
        let newcomers = self.newcomers.iter().map(|(newcomer, _)| newcomer);
        self.masters.iter().chain(newcomers).find(|master| master.address == *address).cloned()
    }

    /// All that have slots.
    pub(super) fn masters(&self) -> &[Arc<Master>] {
        &self.masters
    }

    /// Whether every slot has a master.
    pub(super) fn is_whole(&self) -> bool {
        self.owners.iter().all(|owner| *owner != UNSERVED)
    }
}

/// The ranges in a reply to `CLUSTER SLOTS` of the node at the host `asked`. Ranges whose master
/// has no known address are left out. `None` if this is no such reply.
pub(super) fn ranges(reply: &Value, asked: &str) -> Option<Vec<Range>> {
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
        all.extend(NodeAddress::answered_by(asked, host, number(port)?).map(|master| Range { first, last, master }));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use redis::parse_redis_value;

    use super::*;
    use crate::store::redis::connection::node::registry::ConnectionCount;
    use crate::store::redis::connection::queue::Sharing;
    use crate::store::redis::topology::deployment::Deployment;

    fn at(host: &str, port: u16) -> NodeAddress {
        NodeAddress { host: host.to_owned(), port }
    }

    fn range(first: u16, last: u16, master: NodeAddress) -> Range {
        Range { first, last, master }
    }

    fn master(address: &NodeAddress) -> Arc<Master> {
        let Deployment::Standalone(server) = Deployment::from_url("redis://h").unwrap() else { unreachable!() };
        Arc::new(Master::new(address.clone(), &server, Sharing::Keys, &ConnectionCount::default()))
    }

    fn owner(map: &SlotMap, slot: u16) -> Option<String> {
        map.owner(Slot::numbered(slot).unwrap())
            .map(|master| format!("{}:{}", master.address.host, master.address.port))
    }

    #[test]
    fn replies() {
        let said = |reply: &str| ranges(&parse_redis_value(reply.as_bytes()).unwrap(), "asked");
        assert_eq!(said("*0\r\n"), Some(vec![]));
        let one = |host: &str| format!("*1\r\n*3\r\n:0\r\n:5\r\n*3\r\n{host}\r\n:7000\r\n$2\r\nid\r\n");
        assert_eq!(said(&one("$9\r\n127.0.0.1")), Some(vec![range(0, 5, at("127.0.0.1", 7000))]));
        assert_eq!(said(&one("$0\r\n")), Some(vec![range(0, 5, at("asked", 7000))]));
        assert_eq!(said(&one("$-1")), Some(vec![range(0, 5, at("asked", 7000))]));
        assert_eq!(said(&one("$1\r\n?")), Some(vec![]), "nobody knows where");
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

    #[test]
    fn a_map_keeps_those_it_knows() {
        let ranges = [range(0, 8_191, at("a", 1)), range(8_192, 16_383, at("b", 1))];
        let first = SlotMap::of(&ranges, None, master);
        assert!(first.is_whole());
        assert_eq!((owner(&first, 8_191), owner(&first, 8_192)), (Some("a:1".into()), Some("b:1".into())));
        let ranges = [range(0, 8_191, at("c", 1)), range(8_192, 16_382, at("b", 1))];
        let second = SlotMap::of(&ranges, Some(&first), master);
        assert!(!second.is_whole());
        assert_eq!((owner(&second, 0), owner(&second, 16_383)), (Some("c:1".into()), None));
        assert!(Arc::ptr_eq(&first.master(&at("b", 1)).unwrap(), &second.master(&at("b", 1)).unwrap()));
        assert!(second.master(&at("a", 1)).is_none());
    }

    #[test]
    fn one_slot_is_corrected() {
        let slot = |number| Slot::numbered(number).unwrap();
        let map = SlotMap::of(&[range(0, 0, at("a", 1)), range(1, 16_383, at("b", 1))], None, master);
        let b = map.master(&at("b", 1)).unwrap();
        let moved = map.with(slot(0), Some(&b));
        assert_eq!((owner(&moved, 0), owner(&moved, 16_383)), (Some("b:1".into()), Some("b:1".into())));
        let added = moved.with(slot(7), Some(&master(&at("c", 2))));
        assert_eq!((owner(&added, 6), owner(&added, 7)), (Some("b:1".into()), Some("c:2".into())));
        let unserved = added.with(slot(7), None);
        assert_eq!((owner(&unserved, 7), unserved.is_whole()), (None, false));
        assert_eq!(owner(&unserved, 8), Some("b:1".into()));
    }

    #[test]
    fn newcomers_are_known_until_they_have_slots() {
        let map = SlotMap::of(&[range(0, 16_383, at("a", 1))], None, master);
        let b = master(&at("b", 1));
        let awaited = map.with_newcomer(&b);
        let refreshed = SlotMap::of(&[range(0, 16_383, at("a", 1))], Some(&awaited), master);
        assert!(Arc::ptr_eq(&b, &refreshed.master(&at("b", 1)).unwrap()));
        assert_eq!(refreshed.masters().len(), 1);
        let arrived = refreshed.with(Slot::numbered(3).unwrap(), Some(&b));
        assert!(Arc::ptr_eq(&b, arrived.owner(Slot::numbered(3).unwrap()).unwrap()));
        let ranges = [range(0, 2, at("a", 1)), range(3, 3, at("b", 1)), range(4, 16_383, at("a", 1))];
        let moved = SlotMap::of(&ranges, Some(&arrived), master);
        assert_eq!((moved.masters().len(), moved.newcomers.len()), (2, 0));
        let mut crowded = map;
        for port in 0..100 {
            crowded = crowded.with_newcomer(&master(&at("x", port)));
        }
        assert_eq!(crowded.newcomers.len(), NEWCOMERS);
    }
}

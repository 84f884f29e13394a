//! [`SlotMap`]: which [`Master`] serves which slot, as far as is known.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use redis::Value;

use super::redirect::replied_by;
use super::slot::SLOTS;
use crate::store::Health;
use crate::store::redis::batcher::Batcher;
use crate::store::redis::settings::server::TcpAddress;

/// How many masters are known at most, unless all of them have slots.
const MASTERS: usize = 1_024;

/// A node that serves slots, or is about to. It ends, with its link, once no map names it.
pub(super) struct Master {
    pub(super) address: TcpAddress,
    /// Its link connects when this is first asked for.
    pub(super) batcher: OnceLock<Arc<Batcher>>,
}

impl Master {
    pub(super) fn health(&self) -> Health {
        self.batcher
            .get()
            .map_or(Health::Down, |batcher| batcher.link.health())
    }
}

/// Slots from one up to another, both included, and the master of all of them.
pub(super) struct SlotRange {
    first: usize,
    last: usize,
    master: TcpAddress,
}

impl SlotRange {
    /// The ranges in a reply to `CLUSTER SLOTS` of the node at the host `asked`. Ranges whose
    /// master has no known address are left out. `None` if this is no such reply.
    pub(super) fn all_of(reply: &Value, asked: &str) -> Option<Vec<Self>> {
        let Value::Array(ranges) = reply else {
            return None;
        };
        let mut all = Vec::with_capacity(ranges.len());
        for range in ranges {
            let Value::Array(parts) = range else {
                return None;
            };
            let [
                Value::Int(first),
                Value::Int(last),
                Value::Array(master),
                ..,
            ] = parts.as_slice()
            else {
                return None;
            };
            let [host, Value::Int(port), ..] = master.as_slice() else {
                return None;
            };
            let host = match host {
                Value::Nil => "",
                Value::BulkString(host) => std::str::from_utf8(host).ok()?,
                Value::SimpleString(host) => host,
                _ => return None,
            };
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            let master = replied_by(asked, host, u16::try_from(*port).ok()?);
            all.extend(master.map(|master| Self {
                first,
                last,
                master,
            }));
        }
        Some(all)
    }
}

/// Which master serves which slot.
pub(super) struct SlotMap {
    owners: Box<[Option<Arc<Master>>]>,
    /// Those that have slots, and those that slots are moving to.
    masters: HashMap<TcpAddress, Arc<Master>>,
}

impl SlotMap {
    /// Of a cluster of which nothing is known.
    pub(super) fn empty() -> Self {
        Self {
            owners: vec![None; usize::from(SLOTS)].into(),
            masters: HashMap::new(),
        }
    }

    /// Replaces the map by these ranges; an impossible range names no slot. Known masters stay the
    /// same, with their links; masters without slots are dropped.
    pub(super) fn replace(&mut self, ranges: Vec<SlotRange>) {
        self.owners.fill(None);
        for SlotRange {
            first,
            last,
            master,
        } in ranges
        {
            let master = self.master(master);
            let owners = self.owners.get_mut(first..=last);
            owners.unwrap_or_default().fill(Some(master));
        }
        self.drop_unused();
    }

    /// Notes that the node at this address serves the slot, and gives it.
    pub(super) fn moved(&mut self, slot: u16, to: TcpAddress) -> Arc<Master> {
        debug_assert!(slot < SLOTS, "it is the slot of a key");
        let master = self.master(to);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(Arc::clone(&master));
        }
        master
    }

    /// The node at this address, which from now on is known.
    pub(super) fn master(&mut self, at: TcpAddress) -> Arc<Master> {
        if self.masters.len() >= MASTERS {
            self.drop_unused();
        }
        let master = self.masters.entry(at.clone()).or_insert_with(|| {
            Arc::new(Master {
                address: at,
                batcher: OnceLock::new(),
            })
        });
        Arc::clone(master)
    }

    /// Drops the masters that have no slots, but for those that a call is at.
    fn drop_unused(&mut self) {
        self.masters
            .retain(|_, master| Arc::strong_count(master) > 1);
    }

    /// The master of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Master>> {
        self.owners.get(usize::from(slot))?.as_ref()
    }

    /// All that are known, in no order.
    pub(super) fn masters(&self) -> impl Iterator<Item = &Arc<Master>> {
        self.masters.values()
    }

    /// Whether every slot has a master.
    pub(super) fn is_whole(&self) -> bool {
        self.owners.iter().all(Option::is_some)
    }
}

//! [`SlotMap`]: the [`Master`] that serves each slot, as far as is known, so that a call goes to it
//! at once. It is replaced by what nodes answer, and corrected by their redirections.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use redis::{Value, from_redis_value_ref};

use super::redirect::replied_by;
use crate::store::Health;
use crate::store::redis::batcher::Batcher;
use crate::store::redis::settings::server::TcpAddress;
use crate::store::redis::settings::slot::SLOTS;

/// The most masters that are kept, unless all of them have slots.
const MASTERS: usize = 1_024;

/// A node that serves slots, or is about to. It ends, with its link, once no map names it.
pub(super) struct Master {
    pub(super) address: TcpAddress,
    /// The batcher; its link connects when this is first needed.
    pub(super) batcher: OnceLock<Arc<Batcher>>,
    /// `true` once a node has named it in an answer about all slots.
    pub(super) is_listed: AtomicBool,
}

impl Master {
    pub(super) fn health(&self) -> Health {
        self.batcher
            .get()
            .map_or(Health::Down, |batcher| batcher.link().health())
    }
}

/// Slots from `first` to `last`, both included, and the master of all of them.
pub(super) struct SlotRange {
    first: usize,
    last: usize,
    master: TcpAddress,
}

impl SlotRange {
    /// The ranges in a reply to `CLUSTER SLOTS` of the node at the host `asked`. Ranges whose
    /// master has no known address are left out. `None` if the reply has another form.
    pub(super) fn all_of(reply: &Value, asked: &str) -> Option<Vec<Self>> {
        let ranges: Vec<Vec<Value>> = from_redis_value_ref(reply).ok()?;
        let mut all = Vec::with_capacity(ranges.len());
        for range in &ranges {
            let [
                Value::Int(first),
                Value::Int(last),
                Value::Array(master),
                ..,
            ] = range.as_slice()
            else {
                return None;
            };
            let [host, Value::Int(port), ..] = master.as_slice() else {
                return None;
            };
            let host: Option<String> = from_redis_value_ref(host).ok()?;
            let mut host = host.unwrap_or_default();
            if host == "?"
                && let Some(others) = master.get(3)
            {
                // A node that prefers host names and has none names its address here.
                let others: HashMap<String, String> =
                    from_redis_value_ref(others).unwrap_or_default();
                host = others.get("ip").cloned().unwrap_or(host);
            }
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            let master = replied_by(asked, &host, u16::try_from(*port).ok()?);
            all.extend(master.map(|master| Self {
                first,
                last,
                master,
            }));
        }
        Some(all)
    }
}

/// The master that serves each slot.
pub(super) struct SlotMap {
    owners: Box<[Option<Arc<Master>>]>,
    /// The masters that have slots, that slots are moving to, or that a call is at.
    masters: HashMap<TcpAddress, Arc<Master>>,
}

impl SlotMap {
    /// The map of a cluster that is not known yet.
    pub(super) fn empty() -> Self {
        Self {
            owners: vec![None; usize::from(SLOTS)].into(),
            masters: HashMap::new(),
        }
    }

    /// Replaces the map by these ranges; an impossible range names no slot. Known masters keep
    /// their links; masters without slots are dropped.
    ///
    /// Returns the slots whose former master had a link and has no slots any more, each with its
    /// new master.
    pub(super) fn replace(&mut self, ranges: Vec<SlotRange>) -> Vec<(usize, Arc<Master>)> {
        let none = vec![None; self.owners.len()].into();
        let before: Box<[Option<Arc<Master>>]> = std::mem::replace(&mut self.owners, none);
        for SlotRange {
            first,
            last,
            master,
        } in ranges
        {
            let master = self.master(master);
            master.is_listed.store(true, Relaxed);
            let owners = self.owners.get_mut(first..=last);
            owners.unwrap_or_default().fill(Some(master));
        }
        let serving: HashSet<_> = self.serving().iter().map(Arc::as_ptr).collect();
        let mut taken_over = Vec::new();
        for (slot, (now, before)) in self.owners.iter().zip(before).enumerate() {
            // Most often none has another master: callers wait for this map.
            if let (Some(now), Some(before)) = (now, before)
                && !Arc::ptr_eq(now, &before)
                && before.batcher.get().is_some()
                && !serving.contains(&Arc::as_ptr(&before))
            {
                taken_over.push((slot, Arc::clone(now)));
            }
        }
        self.drop_unused();
        taken_over
    }

    /// Records that the node at this address serves the slot, and returns it.
    pub(super) fn moved(&mut self, slot: u16, to: TcpAddress) -> Arc<Master> {
        debug_assert!(slot < SLOTS, "it is the slot of a key");
        let master = self.master(to);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(Arc::clone(&master));
        }
        master
    }

    /// The node at this address, which is kept from now on.
    pub(super) fn master(&mut self, at: TcpAddress) -> Arc<Master> {
        if self.masters.len() >= MASTERS {
            self.drop_unused();
        }
        let master = self.masters.entry(at.clone()).or_insert_with(|| {
            Arc::new(Master {
                address: at,
                batcher: OnceLock::new(),
                is_listed: AtomicBool::new(false),
            })
        });
        Arc::clone(master)
    }

    /// Drops the masters that have no slots and no call.
    fn drop_unused(&mut self) {
        self.masters
            .retain(|_, master| Arc::strong_count(master) > 1);
    }

    /// The master of a slot, if it is known.
    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Master>> {
        self.owners.get(usize::from(slot))?.as_ref()
    }

    /// The slots that the node at this address serves.
    pub(super) fn slots_of(&self, at: &TcpAddress) -> Vec<usize> {
        let is_at = |owner: &Arc<Master>| owner.address == *at;
        let slots = self.owners.iter().enumerate();
        let slots = slots.filter(|(_, owner)| owner.as_ref().is_some_and(is_at));
        slots.map(|(slot, _)| slot).collect()
    }

    /// The masters that have slots, in an order that differs between processes.
    pub(super) fn serving(&self) -> Vec<Arc<Master>> {
        let mut owners: Vec<_> = self.owners.iter().flatten().collect();
        owners.dedup_by_key(|owner| Arc::as_ptr(owner));
        let each = owners.into_iter().map(|owner| (Arc::as_ptr(owner), owner));
        each.collect::<HashMap<_, _>>()
            .into_values()
            .cloned()
            .collect()
    }

    /// `true` if every slot has a master.
    pub(super) fn is_whole(&self) -> bool {
        self.owners.iter().all(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that lies may redirect each call to another address.
    #[test]
    fn nodes_that_only_redirections_name_are_bounded() {
        let mut map = SlotMap::empty();
        for port in 1..=u16::MAX {
            let host = "node".to_owned();
            drop(map.master(TcpAddress { host, port }));
        }
        assert!(map.masters.len() <= MASTERS, "{}", map.masters.len());
    }
}

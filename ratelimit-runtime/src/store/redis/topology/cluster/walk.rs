//! [`Walk`]: the keys of all masters of a cluster, one master after the other.
//!
//! What has been seen is noted by slot, since masters come and go: a slot has been seen once its
//! master has been scanned to the end and serves it still. So a slot that is moved meanwhile, or
//! whose master is replaced, is scanned again; only keys that are being moved may be missing.

use super::master::NodeAddress;
use super::slot_map::SlotMap;
use super::topology::Topology;
use crate::error::StoreError;
use crate::store::redis::topology::scan::{Scan, ScanPosition, Search};
use crate::store::redis::wire::slot::{SLOTS, Slot};

/// How far a walk has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    /// The slots that have been seen, in order.
    seen: Vec<Slot>,
    /// The scan of the last master.
    visit: Option<Visit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Visit {
    master: NodeAddress,
    /// The slots that the master served when the visit began, in order.
    slots: Vec<Slot>,
    at: ScanPosition,
}

impl Walk {
    /// The keys of the next part, and the walk for what follows; `None` at the end.
    pub(crate) async fn next(
        mut self,
        topology: &Topology,
        search: Search<'_>,
    ) -> Result<(Vec<Vec<u8>>, Option<Self>), StoreError> {
        let visit = self.visit.take();
        if let Some(visit) = visit.as_ref().filter(|visit| visit.at.cursor != 0)
            && let Some(scan) = visit.resume(topology, search).await?
        {
            let (keys, at) = scan.next(search, Some(visit.at)).await?;
            self.visit = Some(Visit { at, ..visit.clone() });
            return Ok((keys, Some(self)));
        }
        let map = topology.fresh_map().await?;
        if let Some(visit) = visit.filter(|visit| visit.at.cursor == 0) {
            self.note(&visit, &map);
        }
        let Some(slot) = self.first_unseen() else { return Ok((Vec::new(), None)) };
        let unserved = || StoreError::unavailable("not every slot of the Redis cluster is served");
        let master = map.owner(slot).cloned().ok_or_else(unserved)?;
        let scan = Scan::new(master.nodes.current()?, search).await?;
        let (keys, at) = scan.next(search, None).await?;
        let slots = all_slots().filter(|slot| serves(&map, *slot, &master.address)).collect();
        self.visit = Some(Visit { master: master.address.clone(), slots, at });
        Ok((keys, Some(self)))
    }

    /// Notes what a visit that came to its end has seen.
    fn note(&mut self, visit: &Visit, now: &SlotMap) {
        self.seen.extend(visit.slots.iter().filter(|slot| serves(now, **slot, &visit.master)));
        self.seen.sort_unstable();
        self.seen.dedup();
    }

    fn first_unseen(&self) -> Option<Slot> {
        let seen = self.seen.iter().copied().map(Some).chain([None]);
        all_slots().zip(seen).find(|(slot, seen)| Some(*slot) != *seen).map(|(slot, _)| slot)
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        write_slots(&self.seen, bytes);
        let Some(Visit { master, slots, at }) = &self.visit else { return };
        at.write(bytes);
        write_slots(slots, bytes);
        bytes.extend_from_slice(&master.port.to_le_bytes());
        bytes.extend_from_slice(master.host.as_bytes());
    }

    /// What these bytes say; `None` if they were not written by [`write`](Self::write).
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let seen = read_slots(&mut bytes)?;
        if bytes.is_empty() {
            return Some(Self { seen, visit: None });
        }
        let at = ScanPosition::read(&mut bytes)?;
        let slots = read_slots(&mut bytes)?;
        let (port, host) = bytes.split_first_chunk()?;
        let host = std::str::from_utf8(host).ok().filter(|host| !host.is_empty())?.to_owned();
        let master = NodeAddress { host, port: u16::from_le_bytes(*port) };
        Some(Self { seen, visit: Some(Visit { master, slots, at }) })
    }
}

impl Visit {
    /// The scan of the same process; `None` if the master is not known any more, or another process
    /// is at its address.
    async fn resume(&self, topology: &Topology, search: Search<'_>) -> Result<Option<Scan>, StoreError> {
        let Some(master) = topology.known_master(&self.master).await? else { return Ok(None) };
        let scan = Scan::new(master.nodes.current()?, search).await;
        // One that is gone is replaced in the next map.
        Ok(scan.ok().filter(|scan| scan.can_continue(self.at)))
    }
}

fn all_slots() -> impl Iterator<Item = Slot> {
    (0..SLOTS).filter_map(Slot::numbered)
}

fn serves(map: &SlotMap, slot: Slot, address: &NodeAddress) -> bool {
    map.owner(slot).is_some_and(|owner| owner.address == *address)
}

/// Writes slots that are in order as ranges: how many, and the first and the last of each.
fn write_slots(slots: &[Slot], bytes: &mut Vec<u8>) {
    let ranges: Vec<&[Slot]> = slots.chunk_by(|slot, next| slot.index() + 1 == next.index()).collect();
    let number = |number: usize| u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes();
    bytes.extend_from_slice(&number(ranges.len()));
    for range in ranges {
        for end in [range.first(), range.last()].into_iter().flatten() {
            bytes.extend_from_slice(&number(end.index()));
        }
    }
}

/// Takes slots off the front of these bytes.
fn read_slots(bytes: &mut &[u8]) -> Option<Vec<Slot>> {
    let mut number = || {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u16::from_le_bytes(*number))
    };
    let (ranges, mut slots) = (number()?, Vec::new());
    for _ in 0..ranges {
        let (first, last) = (number()?, number()?);
        let is_behind = slots.last().is_none_or(|before: &Slot| before.index() < usize::from(first));
        if !is_behind || first > last || last >= SLOTS {
            return None;
        }
        slots.extend((first..=last).filter_map(Slot::numbered));
    }
    Some(slots)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use super::*;

    fn slots(numbers: impl IntoIterator<Item = u16>) -> Vec<Slot> {
        numbers.into_iter().map(|number| Slot::numbered(number).unwrap()).collect()
    }

    fn written(walk: &Walk) -> Vec<u8> {
        let mut bytes = Vec::new();
        walk.write(&mut bytes);
        bytes
    }

    #[test]
    fn a_walk_is_read_as_it_was_written() {
        let at = ScanPosition { process: [7; 20], cursor: 42 };
        let visit = |slots| Some(Visit { master: NodeAddress { host: "::1".to_owned(), port: 7000 }, slots, at });
        for walk in [
            Walk::default(),
            Walk { seen: slots(0..SLOTS), visit: None },
            Walk { seen: slots([0, 5, 6, 7, 16_383]), visit: visit(slots(100..200)) },
            Walk { seen: Vec::new(), visit: visit(slots((0..SLOTS).step_by(2))) },
        ] {
            let bytes = written(&walk);
            assert_eq!(Walk::read(&bytes), Some(walk.clone()));
            for end in (0..bytes.len()).step_by(1 + bytes.len() / 100) {
                assert_ne!(Walk::read(&bytes[..end]), Some(walk.clone()), "cut at {end}");
            }
        }
        assert!(written(&Walk { seen: slots(0..SLOTS), visit: visit(slots(0..8_192)) }).len() < 64);
    }

    #[test]
    fn ranges_that_are_not_in_order_are_none() {
        for numbers in [&[1, 5, 4][..], &[2, 0, 5, 5, 7], &[1, 0, SLOTS], &[2, 7, 8, 0, 1], &[1, 0], &[]] {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            assert_eq!(Walk::read(&bytes), None, "{numbers:?}");
        }
    }
}

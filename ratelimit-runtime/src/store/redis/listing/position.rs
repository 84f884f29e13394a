//! How far a list has come, as bytes: [`ServerPosition`] on one server, [`Walk`] in a cluster.

use crate::store::redis::cluster::{NodeAddress, SLOTS, Slot};

/// The first byte of a position: which of the two it is.
const SERVER: u8 = 1;
const CLUSTER: u8 = 2;

/// The `run_id` of a server.
pub(super) type ProcessId = [u8; 20];

/// How far the scan of a server has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerPosition {
    pub(super) process: ProcessId,
    /// That of `SCAN`; 0 at the end.
    pub(super) cursor: u64,
}

impl ServerPosition {
    pub(super) fn write(self) -> Vec<u8> {
        let mut bytes = vec![SERVER];
        self.append_to(&mut bytes);
        bytes
    }

    /// The position in these bytes; `None` if they were not written by [`write`](Self::write).
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut bytes = bytes.strip_prefix(&[SERVER])?;
        Self::take_from(&mut bytes).filter(|_| bytes.is_empty())
    }

    fn append_to(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.process);
        bytes.extend_from_slice(&self.cursor.to_le_bytes());
    }

    fn take_from(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self { process: take(bytes)?, cursor: u64::from_le_bytes(take(bytes)?) })
    }
}

/// How far the walk over a cluster's masters has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Walk {
    /// One for each slot.
    slots: Vec<Seen>,
    /// The master that is being listed, and how far.
    pub(super) visit: Option<(NodeAddress, ServerPosition)>,
}

/// Whether the keys of a slot have been listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Seen {
    No,
    /// Its master is being listed.
    Now,
    Yes,
}

impl Walk {
    /// One that has seen nothing.
    pub(super) fn new() -> Self {
        Self { slots: vec![Seen::No; usize::from(SLOTS)], visit: None }
    }

    /// Begins to visit a master, which serves these slots.
    pub(super) fn begin(&mut self, master: NodeAddress, at: ServerPosition, serves: impl Fn(Slot) -> bool) {
        self.set(Seen::No, |slot| if serves(slot) { Seen::Now } else { Seen::No });
        self.visit = Some((master, at));
    }

    /// Ends the visit. Of the slots that the master served when it began, those have been seen of
    /// which this still holds.
    pub(super) fn end(&mut self, serves_still: impl Fn(Slot) -> bool) {
        self.set(Seen::Now, |slot| if serves_still(slot) { Seen::Yes } else { Seen::No });
        self.visit = None;
    }

    fn set(&mut self, from: Seen, to: impl Fn(Slot) -> Seen) {
        let slots = (0..SLOTS).filter_map(Slot::numbered).zip(&mut self.slots);
        slots.filter(|(_, seen)| **seen == from).for_each(|(slot, seen)| *seen = to(slot));
    }

    pub(super) fn first_unseen(&self) -> Option<Slot> {
        let index = self.slots.iter().position(|seen| *seen == Seen::No)?;
        Slot::numbered(u16::try_from(index).ok()?)
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = vec![CLUSTER];
        for run in self.slots.chunk_by(Seen::eq) {
            bytes.extend(run.first().map(|seen| *seen as u8));
            bytes.extend_from_slice(&u16::try_from(run.len()).unwrap_or(SLOTS).to_le_bytes());
        }
        if let Some((master, at)) = &self.visit {
            at.append_to(&mut bytes);
            bytes.extend_from_slice(&master.port.to_le_bytes());
            bytes.extend_from_slice(master.host.as_bytes());
        }
        bytes
    }

    /// The walk in these bytes; `None` if they were not written by [`write`](Self::write).
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut bytes = bytes.strip_prefix(&[CLUSTER])?;
        let mut slots = Vec::with_capacity(usize::from(SLOTS));
        while slots.len() < usize::from(SLOTS) {
            let [seen] = take(&mut bytes)?;
            let seen = [Seen::No, Seen::Now, Seen::Yes].into_iter().find(|known| *known as u8 == seen)?;
            let run = usize::from(u16::from_le_bytes(take(&mut bytes)?));
            if run == 0 || run > usize::from(SLOTS) - slots.len() {
                return None;
            }
            slots.resize(slots.len() + run, seen);
        }
        if bytes.is_empty() {
            return Some(Self { slots, visit: None });
        }
        let at = ServerPosition::take_from(&mut bytes)?;
        let port = u16::from_le_bytes(take(&mut bytes)?);
        let host = std::str::from_utf8(bytes).ok().filter(|host| !host.is_empty())?.to_owned();
        Some(Self { slots, visit: Some((NodeAddress { host, port }, at)) })
    }
}

/// Takes an array off the front of these bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use super::*;

    const AT: ServerPosition = ServerPosition { process: [7; 20], cursor: 42 };

    fn master() -> NodeAddress {
        NodeAddress { host: "::1".to_owned(), port: 7000 }
    }

    #[test]
    fn a_position_is_read_as_it_was_written() {
        assert_eq!(ServerPosition::read(&AT.write()), Some(AT));
        let (mut some, mut all) = (Walk::new(), Walk::new());
        some.begin(master(), AT, |slot| slot.index() % 2 == 0);
        all.begin(master(), AT, |_| true);
        assert!(all.write().len() < 64);
        all.end(|_| true);
        for walk in [Walk::new(), some, all] {
            let bytes = walk.write();
            assert_eq!((Walk::read(&bytes), ServerPosition::read(&bytes)), (Some(walk.clone()), None));
            for end in (0..bytes.len()).step_by(1 + bytes.len() / 100) {
                assert_ne!(Walk::read(&bytes[..end]), Some(walk.clone()), "cut at {end}");
            }
        }
        for nonsense in [&[CLUSTER, 0, 1, 64][..], &[CLUSTER, 3, 0, 64], &[CLUSTER, 0, 0, 0], &[SERVER], &[]] {
            assert_eq!((Walk::read(nonsense), ServerPosition::read(nonsense)), (None, None), "{nonsense:?}");
        }
    }

    #[test]
    fn a_slot_is_seen_once_its_master_was_listed_and_serves_it_still() {
        let mut walk = Walk::new();
        assert_eq!(walk.first_unseen(), Slot::numbered(0));
        walk.begin(master(), AT, |slot| slot.index() < 10);
        walk.end(|slot| slot.index() != 4);
        assert_eq!(walk.first_unseen(), Slot::numbered(4));
        walk.begin(master(), AT, |slot| slot.index() != 4);
        walk.end(|_| true);
        assert_eq!(walk.first_unseen(), Slot::numbered(4), "it came while its master was being listed");
        walk.begin(master(), AT, |_| true);
        walk.end(|_| true);
        assert_eq!(walk.first_unseen(), None);
    }
}

//! [`Epochs`]: counts how often a server may have lost keys, so that earlier answers about its keys
//! are not trusted. Each new connection counts, except the first of a runtime.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::slot::{SLOTS, slot_of};

/// Counts the reconnections of a store, on all runtimes. Clones share their counts.
#[derive(Clone)]
pub(crate) struct Epochs {
    all: Arc<AtomicU64>,
    /// The reconnections to the master of each slot; empty unless the server is a cluster.
    of_slots: Arc<[AtomicU32]>,
}

impl Epochs {
    /// The counts of a store with one server: its reconnections are `all`.
    pub(crate) fn of_one(all: Arc<AtomicU64>) -> Self {
        Self {
            all,
            of_slots: Arc::default(),
        }
    }

    pub(crate) fn of_cluster() -> Self {
        Self {
            all: Arc::default(),
            of_slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The number of reconnections so far, to whichever server.
    #[inline]
    pub(crate) fn all(&self) -> u64 {
        self.all.load(Acquire)
    }

    /// The number of reconnections so far to the server of a key.
    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        if self.of_slots.is_empty() {
            self.all()
        } else {
            self.of_slot(key)
        }
    }

    /// Apart from `of`, so that a store with one server pays nothing for it.
    #[cold]
    #[inline(never)]
    fn of_slot(&self, key: &[u8]) -> u64 {
        let epoch = self.of_slots.get(usize::from(slot_of(key)));
        epoch.map_or(0, |epoch| epoch.load(Acquire).into())
    }

    /// Notes a reconnection to a server that may have any key.
    pub(crate) fn begin(&self) {
        self.begin_of(0..self.of_slots.len());
    }

    /// Notes a reconnection to the master of these slots, or that another master has them now.
    pub(crate) fn begin_of(&self, slots: impl IntoIterator<Item = usize>) {
        for slot in slots {
            if let Some(epoch) = self.of_slots.get(slot) {
                epoch.fetch_add(1, Release);
            }
        }
        self.all.fetch_add(1, Release);
    }
}

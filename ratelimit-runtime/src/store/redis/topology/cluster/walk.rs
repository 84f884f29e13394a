//! [`Walk`]: the keys of all masters of a cluster, one master after the other.
//!
//! What has been seen is noted by slot, since masters come and go: a slot has been seen once its master has been scanned to the
//! end and serves it still. So a slot that is moved meanwhile, or whose master is replaced, is looked at again; only what is in
//! the middle of a move may be missed.

use std::sync::Arc;

use super::master::Master;
use super::slot_map::SlotMap;
use super::topology::Topology;
use crate::error::StoreError;
use crate::store::redis::topology::scan::{Scan, Search};
use crate::store::redis::wire::slot::{SLOTS, Slot};

#[derive(Clone, Default)]
pub(crate) struct Walk {
    /// The slots that have been seen.
    seen: Vec<Slot>,
    /// The master that is being looked at, or was last.
    visit: Option<Visit>,
}

#[derive(Clone)]
struct Visit {
    master: Arc<Master>,
    /// As it was when the visit began.
    map: Arc<SlotMap>,
    /// Nothing at the end.
    scan: Option<Scan>,
}

impl Walk {
    /// The keys of the next part, and the walk for what follows; none at the end.
    pub(crate) async fn next(
        mut self,
        topology: &Topology,
        search: Search<'_>,
    ) -> Result<(Vec<Vec<u8>>, Option<Self>), StoreError> {
        let (master, map, scan) = match self.visit.take() {
            Some(Visit { master, map, scan: Some(scan) }) if scan.is_open() => (master, map, scan),
            last => {
                let map = topology.fresh_map().await?;
                if let Some(last) = last {
                    self.note(&last, &map);
                }
                let Some(slot) = self.first_unseen() else { return Ok((Vec::new(), None)) };
                let unserved = || StoreError::unavailable("not every slot of the Redis cluster is served");
                let master = map.owner(slot).cloned().ok_or_else(unserved)?;
                let scan = Scan::begin(master.nodes.current()?).await?;
                (master, map, scan)
            }
        };
        let (keys, scan) = scan.next(search).await?;
        self.visit = Some(Visit { master, map, scan });
        Ok((keys, Some(self)))
    }

    /// Notes what a visit has seen, if it came to its end.
    fn note(&mut self, visit: &Visit, now: &SlotMap) {
        if visit.scan.is_some() {
            return;
        }
        let serves = |map: &SlotMap, slot| map.owner(slot).is_some_and(|owner| owner.address == visit.master.address);
        let all = (0..SLOTS).filter_map(Slot::numbered);
        self.seen.extend(all.filter(|slot| serves(&visit.map, *slot) && serves(now, *slot)));
        self.seen.sort_unstable();
        self.seen.dedup();
    }

    fn first_unseen(&self) -> Option<Slot> {
        let seen = self.seen.iter().copied().map(Some).chain([None]);
        let mut all = (0..SLOTS).filter_map(Slot::numbered).zip(seen);
        all.find(|(slot, seen)| Some(*slot) != *seen).map(|(slot, _)| slot)
    }
}

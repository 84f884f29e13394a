//! [`Settlements`]: the charges of a limiter that are being settled, and the room for more.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::pace::Backoff;

/// The pauses between two looks for room.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(8));

/// The settlements of a limiter that have not ended.
#[derive(Debug)]
pub(in crate::engine) struct Settlements {
    /// Each receiver is a settlement without a caller, or an attempt that may leave some.
    open: watch::Sender<()>,
    room: Arc<Semaphore>,
}

impl Default for Settlements {
    fn default() -> Self {
        Self {
            open: watch::Sender::default(),
            room: Arc::new(Semaphore::new(Self::MOST)),
        }
    }
}

impl Settlements {
    /// The most settlements that a limiter has at a time.
    pub(in crate::engine) const MOST: usize = 10_000;

    /// The number of open settlements.
    pub(in crate::engine) fn open(&self) -> usize {
        self.open.receiver_count()
    }

    /// Waits until no settlement is open.
    pub(in crate::engine) async fn ended(&self) {
        self.open.closed().await;
    }

    /// A settlement that [`ended`](Self::ended) waits for until this is dropped.
    pub(in crate::engine) fn begin(&self) -> watch::Receiver<()> {
        self.open.subscribe()
    }

    /// Room for `many` more settlements, if there is as much.
    pub(in crate::engine) fn try_room(&self, many: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_many_owned(many).ok()
    }

    /// Room for `many` more settlements, once there is as much. A caller that waits holds none of
    /// it: a settlement that finds no room is given up.
    pub(in crate::engine) async fn room(&self, many: u32) -> OwnedSemaphorePermit {
        let mut pauses = PAUSES;
        loop {
            if let Some(room) = self.try_room(many) {
                return room;
            }
            tokio::time::sleep(pauses.pause()).await;
        }
    }
}

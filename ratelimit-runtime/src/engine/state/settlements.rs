//! [`Settlements`]: the charges of a limiter that are being settled, and the room for more.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The settlements of a limiter that have not ended.
#[derive(Debug)]
pub(in crate::engine) struct Settlements {
    /// A receiver stands for an open settlement, or for an attempt that may begin some.
    open: watch::Sender<()>,
    room: Arc<Semaphore>,
    /// Room for those that wait for a server that is away, so that they take none from others.
    room_of_waiting: Arc<Semaphore>,
}

impl Default for Settlements {
    fn default() -> Self {
        Self {
            open: watch::Sender::default(),
            room: Arc::new(Semaphore::new(Self::MOST)),
            room_of_waiting: Arc::new(Semaphore::new(Self::MOST)),
        }
    }
}

impl Settlements {
    /// The most settlements that wait for servers that are away, and the most others.
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

    /// Room for one more settlement to wait for its server, if there is any.
    pub(in crate::engine) fn try_room_of_waiting(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room_of_waiting).try_acquire_owned().ok()
    }
}

//! [`Settlements`]: the charges of a limiter that are being settled, and room for more.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// How many settlements there may be.
const MOST: usize = 10_000;

/// The settlements of a limiter that have not ended.
#[derive(Debug)]
pub(in crate::engine) struct Settlements {
    /// Each receiver is one that ends without a caller, or an attempt that may leave some.
    open: watch::Sender<()>,
    room: Arc<Semaphore>,
}

/// A settlement that is waited for until this is dropped.
pub(in crate::engine) type OpenSettlement = watch::Receiver<()>;

impl Default for Settlements {
    fn default() -> Self {
        Self {
            open: watch::Sender::default(),
            room: Arc::new(Semaphore::new(MOST)),
        }
    }
}

impl Settlements {
    /// How many are open now.
    pub(in crate::engine) fn open(&self) -> usize {
        self.open.receiver_count()
    }

    /// Returns once none is open.
    pub(in crate::engine) async fn ended(&self) {
        self.open.closed().await;
    }

    pub(in crate::engine) fn begin(&self) -> OpenSettlement {
        self.open.subscribe()
    }

    /// Room for so many more, if there is.
    pub(in crate::engine) fn try_room(&self, many: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_many_owned(many).ok()
    }

    /// Room for so many more, once there is. All of it is taken at once: callers that each had some
    /// would wait for each other's.
    pub(in crate::engine) async fn room(&self, many: u32) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.room).acquire_many_owned(many).await;
        debug_assert!(room.is_ok(), "the semaphore is never closed");
        room.ok()
    }
}

//! [`OpenPermit`]: the permit of a call in flight.

use std::fmt;
use std::sync::Arc;

use crate::engine::check::PlaceCheck;
use crate::engine::shared::Engine;
use crate::observe;
use crate::store::{PermitId, PlaceRequest};

/// A permit that the store knows, or may know: one that was asked for counts as known until the
/// store has said that it has no place. Its place is left when it is dropped.
pub(in crate::engine) struct StorePermit {
    engine: Arc<Engine>,
    place: Arc<PlaceCheck>,
    /// `None` where the store has no place of it, or is told otherwise that it is left.
    id: Option<PermitId>,
}

impl StorePermit {
    /// One that is about to be asked for.
    pub(super) fn new(engine: &Arc<Engine>, place: &Arc<PlaceCheck>) -> Self {
        Self::with_id(engine, place, PermitId::next())
    }

    /// One of this process alone.
    pub(super) fn unknown_to_store(engine: &Arc<Engine>, place: &Arc<PlaceCheck>) -> Self {
        Self { engine: Arc::clone(engine), place: Arc::clone(place), id: None }
    }

    /// One that the store knows by this id.
    pub(in crate::engine) fn with_id(engine: &Arc<Engine>, place: &Arc<PlaceCheck>, id: PermitId) -> Self {
        Self { engine: Arc::clone(engine), place: Arc::clone(place), id: Some(id) }
    }

    fn key(&self) -> &[u8] {
        self.place.key()
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn id(&self) -> Option<PermitId> {
        self.id
    }

    pub(super) fn request(&self) -> Option<PlaceRequest<'_>> {
        self.id.map(|id| self.place.request(id))
    }

    pub(super) fn is_of(&self, engine: &Engine, place: &PlaceCheck) -> bool {
        self.engine.id == engine.id && self.key() == place.key()
    }

    /// The store has no place of it.
    pub(super) fn has_no_place(mut self) {
        self.id = None;
    }
}

impl Drop for StorePermit {
    fn drop(&mut self) {
        if let Some(request) = self.request() {
            self.engine.store.innermost().leave(request);
        }
    }
}

impl fmt::Debug for StorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorePermit").field("place", &self.place).field("id", &self.id).finish_non_exhaustive()
    }
}

/// The permit of a call in flight. When it is dropped, on whichever thread, its place is handed
/// over to the first caller of this process that waits for it, or left.
#[derive(Debug)]
pub(super) struct OpenPermit(Option<StorePermit>);

impl OpenPermit {
    /// Of a call that [`PermitCounts`](super::PermitCounts) counts.
    pub(super) fn counted(permit: StorePermit) -> Self {
        observe::in_flight(permit.place.name(), true);
        Self(Some(permit))
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        let Some(permit) = self.0.take() else { return };
        observe::in_flight(permit.place.name(), false);
        let engine = Arc::clone(&permit.engine);
        engine.permits.remove(permit.key());
        // Nobody else has places of a memory that only this limiter has.
        if engine.queues.hand_over(permit.key(), permit.id, !engine.in_memory) {
            permit.has_no_place();
        }
    }
}

//! [`Permits`]: the permits of one client's calls in flight: acquired, renewed and released.
//!
//! A client knows each of its permits from before it asks for it until the server has confirmed its
//! release. So a permit is released by its id, whatever the answer was, and the server keeps none
//! that is unknown here. Renewals and releases have no caller: a [`task`] of the client's runtime
//! sends them. If that ends, or stands still, permits end with their leases.

mod open;
mod task;

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use self::task::PermitsState;
use super::errors::unexpected_reply;
use super::scripts::{KeyQuestion, Question, Reply};
use super::servers::Servers;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::store::{Entry, PlaceRequest};

/// The permits of one client. When this is dropped, the task goes on until all are released.
pub(crate) struct Permits {
    shared: Arc<PermitsState>,
    task: AbortHandle,
}

impl Permits {
    /// Starts the task. Time is by `clock`, or else the server's.
    pub(crate) fn start(
        servers: Arc<Servers>,
        clock: Option<Arc<dyn Clock>>,
        runtime: &Handle,
    ) -> Self {
        let shared = Arc::new(PermitsState::new(servers, clock));
        let task = runtime.spawn(Arc::clone(&shared).run()).abort_handle();
        Self { shared, task }
    }

    /// `true` until the runtime ends, and the task with it.
    pub(crate) fn has_runtime(&self) -> bool {
        !self.task.is_finished()
    }

    /// Acquires a permit, and charges the limits in these questions, all or none. The caller must
    /// [release](Self::leave) the permit whatever the answer is, and if it drops the call.
    pub(crate) async fn enter(
        &self,
        place: PlaceRequest,
        limits: Vec<KeyQuestion<'_>>,
    ) -> Result<Entry, StoreError> {
        let (shared, sent_at) = (&*self.shared, Instant::now());
        let leaving = shared.open().enter(&place, sent_at);
        let entered = async {
            let own = (&*place.key, shared.question("enter", &place, leaving)?);
            let stack: Vec<_> = [own].into_iter().chain(limits).collect();
            let replies = shared.servers.ask(&stack, place.timeout_at).await?;
            entry(replies).map_err(StoreError::lost)
        };
        let entry: Result<Entry, StoreError> = entered.await;
        let mut open = shared.open();
        match &entry {
            Ok(entry) if entry.is_entered() => open.entered(place.permit, sent_at),
            // The place may be taken.
            Err(error) if error.is_lost() => {}
            _ => open.forget(place.permit),
        }
        shared.wake(open);
        entry
    }

    /// The number of calls of the key that are in flight.
    pub(crate) async fn in_flight(&self, place: PlaceRequest) -> Result<u64, StoreError> {
        let leaving = self.shared.open().leaving(&place.key);
        let question = self.shared.question("look", &place, leaving)?;
        let question = [(&*place.key, question)];
        let replies = self.shared.servers.ask(&question, place.timeout_at).await?;
        let reply = replies.first().ok_or_else(unexpected_reply)?;
        Ok(reply.place()?.in_flight)
    }

    /// Releases a permit. `false` if it is not one of this client's. Sends nothing itself, and may
    /// be called on any thread.
    pub(crate) fn leave(&self, place: &PlaceRequest) -> bool {
        let mut open = self.shared.open();
        let is_known = open.leave(place.permit, Instant::now());
        self.shared.wake(open);
        is_known
    }

    /// Waits until all permits to release are released.
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = pin!(self.shared.settled.notified());
            settled.as_mut().enable();
            if !self.shared.open().has_leaving() {
                return;
            }
            settled.await;
        }
    }
}

/// The entry in the replies about a permit, and about limits.
fn entry(replies: impl IntoIterator<Item = Reply>) -> Result<Entry, StoreError> {
    let mut replies = replies.into_iter();
    let place = replies.next().ok_or_else(unexpected_reply)?.place()?;
    Ok(Entry {
        is_full: !place.is_done,
        in_flight: place.in_flight,
        verdicts: replies.map(Reply::decision).collect::<Result<_, _>>()?,
    })
}

impl Drop for Permits {
    fn drop(&mut self) {
        let mut open = self.shared.open();
        open.is_closed = true;
        self.shared.wake(open);
    }
}

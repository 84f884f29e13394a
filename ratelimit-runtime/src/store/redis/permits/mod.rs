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

pub(crate) use self::open::MAX_CARRIED;
use self::task::PermitsState;
use super::errors::unexpected_reply;
use super::scripts::{KeyQuestion, Question, Reply};
use super::servers::Servers;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::store::{PermitRequest, PermitVerdict};

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

    /// Acquires a permit, once those in `releases` are released, and charges the limits in these
    /// questions, all or none. The caller must [release](Self::release) the permit whatever the
    /// answer is, and if it drops the call.
    pub(crate) async fn acquire(
        &self,
        request: PermitRequest,
        releases: Vec<String>,
        limits: Vec<KeyQuestion<'_>>,
    ) -> Result<PermitVerdict, StoreError> {
        let (shared, sent_at) = (&*self.shared, Instant::now());
        shared.open().add(&request, sent_at);
        let acquired = async {
            let question = shared.question("acquire_permit", &request, releases)?;
            let own = (&*request.key, question);
            let stack: Vec<_> = [own].into_iter().chain(limits).collect();
            let replies = shared.servers.ask_all(&stack, request.timeout_at).await?;
            verdict(replies).map_err(StoreError::lost)
        };
        let verdict: Result<PermitVerdict, StoreError> = acquired.await;
        let mut open = shared.open();
        match &verdict {
            Ok(verdict) if verdict.is_acquired() => open.acquired(request.id, sent_at),
            // The permit may be held.
            Err(error) if error.is_lost() => {}
            _ => open.forget(request.id),
        }
        shared.wake(open);
        verdict
    }

    /// The permits of a key that are still to be released, as members of its sorted set.
    pub(crate) fn releases_of(&self, key: &Arc<[u8]>) -> Vec<String> {
        self.shared.open().releases_of(key)
    }

    /// The number of calls of the key that are in flight, once those in `releases` are released.
    pub(crate) async fn in_flight(
        &self,
        request: PermitRequest,
        releases: Vec<String>,
    ) -> Result<u64, StoreError> {
        let question = self.shared.question("peek", &request, releases)?;
        let servers = &self.shared.servers;
        let reply = servers.ask(&request.key, question, request.timeout_at);
        Ok(reply.await?.in_flight())
    }

    /// Releases a permit. `false` if it is not one of this client's. Sends nothing itself, and may
    /// be called on any thread.
    pub(crate) fn release(&self, request: &PermitRequest) -> bool {
        let mut open = self.shared.open();
        let is_known = open.release(request.id, Instant::now());
        self.shared.wake(open);
        is_known
    }

    /// Waits until all permits to release are released.
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = pin!(self.shared.settled.notified());
            settled.as_mut().enable();
            if !self.shared.open().has_releases() {
                return;
            }
            settled.await;
        }
    }
}

/// The verdict in the replies about a permit, and about limits.
fn verdict(replies: impl IntoIterator<Item = Reply>) -> Result<PermitVerdict, StoreError> {
    let mut replies = replies.into_iter();
    let permit = replies.next().ok_or_else(unexpected_reply)?;
    Ok(PermitVerdict {
        is_full: !permit.is_done(),
        in_flight: permit.in_flight(),
        verdicts: replies.map(|reply| reply.verdict()).collect(),
    })
}

impl Drop for Permits {
    fn drop(&mut self) {
        let mut open = self.shared.open();
        open.is_closed = true;
        self.shared.wake(open);
    }
}

//! [`Deliveries`]: what callers are to be told, once the state of the connection is not locked.

use std::task::Waker;

use redis::Value;
use tokio::sync::oneshot;

use crate::observe;
use crate::store::redis::wire::commands::{CallError, CallResult};

#[derive(Debug, Default)]
pub(in super::super) struct Deliveries {
    results: Vec<(oneshot::Sender<CallResult>, CallResult)>,
    pub(super) wakers: Vec<Waker>,
    /// How many charges each batch carries that has been written.
    pub(super) batches: observe::CommandSizes,
}

impl Deliveries {
    pub(super) fn answer(&mut self, caller: oneshot::Sender<CallResult>, answer: Value) {
        self.tell(caller, Ok(answer));
    }

    pub(super) fn tell(&mut self, caller: oneshot::Sender<CallResult>, result: CallResult) {
        self.results.push((caller, result));
    }

    pub(super) fn fail(&mut self, caller: oneshot::Sender<CallResult>, why: CallError) {
        self.tell(caller, Err(why));
    }

    /// Tells all of it. Runs foreign code, so no lock may be held that callers wait for: of a
    /// connection's two, the one for reading may be.
    pub(in super::super) fn deliver(&mut self) {
        for (caller, result) in self.results.drain(..) {
            // An error says that the caller was cancelled.
            let _ = caller.send(result);
        }
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
        self.batches.tell();
    }
}

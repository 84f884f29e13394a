//! [`run`]: makes an attempt that does not end with its caller.
//!
//! A caller that could cancel an attempt of several steps could keep the units of others reserved
//! for nothing. One that could cancel the attempt whose turn it has could make all waiters behind
//! it ask at once. So such an attempt is a task and ends regularly; if the caller is gone, the
//! outcome is dropped, which commits reservations and releases permits.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

use super::held::Held;
use super::{Admission, Attempted, attempt, steps, together};
use crate::engine::outage::Refused;
use crate::engine::part::Part;
use crate::engine::state::Turn;
use crate::engine::timeout::all;
use crate::error::StoreError;

/// Makes an attempt at `stack`. The `turn` is given back with the outcome.
pub(in crate::engine) async fn run(
    stack: &Arc<[Part]>,
    turn: Option<Turn>,
) -> (Attempted, Option<Turn>) {
    if turn.is_none() && steps(stack).all(|parts| together::is_possible(&parts)) {
        return (attempt(&mut Held::new(stack), stack).await, None);
    }
    let (tell, told) = oneshot::channel();
    let parts = Arc::clone(stack);
    let mut work = Box::pin(async move {
        let _open: Vec<_> = parts
            .iter()
            .map(|part| part.engine.settlements.begin())
            .collect();
        let mut held = Held::new(&parts);
        let outcome = attempt(&mut held, &parts).await;
        // A caller that is gone takes nothing: all of it is dropped here.
        let _ = tell.send((outcome, turn));
        all(held.late).await;
    });
    // What is known at once needs no task.
    let is_done = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await;
    let task = (!is_done).then(|| tokio::spawn(work.in_current_span().with_current_subscriber()));
    if let Ok(outcome) = told.await {
        return outcome;
    }
    if let Some(task) = task
        && let Err(ended) = task.await
        && ended.is_panic()
    {
        resume_unwind(ended.into_panic());
    }
    // A thread that no runtime drives may wait for one that has ended.
    let error = StoreError::unavailable("its tokio runtime has ended");
    let deciding = stack.iter().position(|part| !part.shadow);
    let outcome = deciding.map_or_else(
        // In shadow mode the error is noted, and refuses nothing.
        || {
            Ok(stack
                .iter()
                .map(|_| Admission::of(Err(error.clone().into())))
                .collect())
        },
        |by| Err(Refused::by(by)(error.clone())),
    );
    (outcome, None)
}

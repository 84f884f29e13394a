//! [`run`]: makes an attempt, which goes on where its caller goes away.
//!
//! A caller that could end an attempt of several steps by going away could keep another's slots
//! reserved for nothing; one that could end the attempt whose turn it has could make all that wait
//! behind it ask at once. So such an attempt is a task: it ends as it would have, and what it gave
//! a caller that is gone is dropped, which commits reservations and releases permits.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::Poll;

use once_cell::sync::OnceCell;
use tokio::sync::oneshot;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

use super::{Attempted, apart, attempt, is_apart};
use crate::engine::outage::Refused;
use crate::engine::part::Part;
use crate::engine::state::{Engine, Turn};
use crate::error::StoreError;

/// Makes an attempt. The `turn` is given back when that ends.
pub(in crate::engine) async fn run(
    stack: &Arc<[Part]>,
    turn: Option<Turn>,
) -> (Attempted, Option<Turn>) {
    if turn.is_none() && !is_apart(stack) {
        return (attempt(stack, &mut Vec::new()).await, None);
    }
    let (tell, mut told) = oneshot::channel();
    let abandoned = Arc::new(OnceCell::new());
    let mut caller = TaskCaller {
        stack,
        abandoned: Arc::clone(&abandoned),
        is_told: false,
    };
    let stack = Arc::clone(stack);
    let mut work = Box::pin(async move {
        let _abandoned = abandoned;
        let mut late = Vec::new();
        let outcome = attempt(&stack, &mut late).await;
        // A caller that is gone takes nothing: all of it is dropped here.
        let _ = tell.send((outcome, turn));
        apart::release_late(late).await;
    });
    // What is known at once needs no task.
    let is_done = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await;
    if let Ok(outcome) = told.try_recv() {
        caller.is_told = true;
        if !is_done {
            tokio::spawn(work.in_current_span().with_current_subscriber());
        }
        return outcome;
    }
    let task = tokio::spawn(work.in_current_span().with_current_subscriber());
    let outcome = told.await;
    caller.is_told = true;
    match outcome {
        Ok(outcome) => outcome,
        Err(_) => match task.await {
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // A thread that no runtime drives may wait for one that has ended.
            _ => {
                let error = StoreError::unavailable("its tokio runtime has ended").into();
                (Err(Refused { by: 0, error }), None)
            }
        },
    }
}

/// The caller of an attempt that is a task.
struct TaskCaller<'a> {
    stack: &'a [Part],
    abandoned: Arc<OnceCell<Abandoned>>,
    is_told: bool,
}

impl Drop for TaskCaller<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            let engines = self.stack.iter().map(|part| Arc::clone(&part.engine));
            // The last that has it lets it go: an attempt that is over does so at once.
            let _ = self.abandoned.set(Abandoned::new(engines.collect()));
        }
    }
}

/// An attempt that goes on without its caller, which the limiters of its parts count until it ends.
struct Abandoned(Vec<Arc<Engine>>);

impl Abandoned {
    fn new(engines: Vec<Arc<Engine>>) -> Self {
        for engine in &engines {
            engine.abandoned.begin(usize::MAX);
        }
        Self(engines)
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        for engine in &self.0 {
            engine.abandoned.end();
        }
    }
}

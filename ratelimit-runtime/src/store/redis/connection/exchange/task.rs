//! [`Task`]: reads a connection, and writes what callers leave to it.

use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::state::{ExchangeState, Gathering, Io, STARVED, closed};
use crate::error::StoreError;
use crate::store::redis::connection::queue::replies::OutOfStep;
use crate::store::redis::wire::incoming::lost;

/// The task of a connection, which ends with it.
pub(super) struct Task(Arc<ExchangeState>);

impl Task {
    pub(super) fn new(shared: Arc<ExchangeState>) -> Self {
        Self(shared)
    }

    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut io = self.0.io.lock().unwrap_or_else(PoisonError::into_inner);
        let worked = self.0.advance(&mut io, cx, true);
        if worked.is_pending() {
            return Poll::Pending;
        }
        drop(io);
        if let Poll::Ready(Err(error)) = worked {
            self.0.close(error, true);
        }
        Poll::Ready(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.close(closed(), false);
        // Others may still have references to the rest; the socket is given back now.
        self.0.io.lock().unwrap_or_else(PoisonError::into_inner).incoming.close();
    }
}

impl ExchangeState {
    /// Does the work of a task that is starved, from the turn of a caller.
    pub(super) fn work(&self) {
        // Another caller may be at it, or the task.
        let Ok(mut io) = self.io.try_lock() else { return };
        // Only a task that has not run since it was woken may be replaced. One that has run since
        // waits for a wake-up of the socket, and reading here, without a waker, would undo that.
        if !self.lock().is_starved(Instant::now()) {
            return;
        }
        let mut cx = Context::from_waker(Waker::noop());
        let worked = self.advance(&mut io, &mut cx, false);
        drop(io);
        match worked {
            Poll::Ready(Err(error)) => self.close(error, true),
            Poll::Ready(Ok(())) => {}
            Poll::Pending => self.lock().task_due_at = Instant::now() + STARVED,
        }
    }

    /// Reads and writes until there is nothing more to read, nor to write. `is_task` if this is the
    /// task, which is woken for more.
    fn advance(&self, io: &mut Io, cx: &mut Context<'_>, is_task: bool) -> Poll<Result<(), StoreError>> {
        let worked = self.read_and_write(io, cx, is_task);
        io.deliveries.deliver();
        worked
    }

    fn read_and_write(&self, io: &mut Io, cx: &mut Context<'_>, is_task: bool) -> Poll<Result<(), StoreError>> {
        let mut answered = 0;
        while io.incoming.read(cx)?.is_ready() {
            answered += self.take_in(io)?;
            // Callers that have their answers need not wait for the rest.
            io.deliveries.deliver();
        }
        let mut inner = self.lock();
        if inner.ended {
            return Poll::Ready(Ok(()));
        }
        inner.reads += 1;
        // Callers that have been answered may have more to charge.
        let gathers = match inner.gathering {
            Gathering::No => is_task && answered > 1 && !inner.queue.has_share(),
            Gathering::Wanted => is_task,
            Gathering::Now => false,
        };
        if gathers {
            inner.gathering = Gathering::Now;
        } else {
            inner.gathering = Gathering::No;
            inner.queue.move_up(Instant::now(), &mut io.deliveries);
        }
        if let Poll::Ready(Err(error)) = inner.write(cx) {
            return Poll::Ready(Err(lost(error)));
        }
        if inner.retired && inner.queue.is_idle() {
            return Poll::Ready(Ok(()));
        }
        if gathers {
            // The next turn comes after all tasks that are ready to run.
            inner.task = None;
            inner.task_due_at = Instant::now() + STARVED;
            cx.waker().wake_by_ref();
        } else if is_task && !inner.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            // No wake-up is lost: this is under the lock under which callers enter, and whatever
            // they left before has just been moved up and written.
            inner.task = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Takes in the replies that have come; says how many callers they answer.
    fn take_in(&self, io: &mut Io) -> Result<usize, StoreError> {
        // Parsed before the lock, so that callers are kept waiting for a moment only.
        let parsed = io.incoming.parse();
        let now = Instant::now();
        let mut inner = self.lock();
        inner.last_byte_at = now;
        let mut answered = 0;
        let taken = io.incoming.take(|reply| {
            answered += inner.queue.reply(reply, now, &mut io.deliveries)?;
            Ok(())
        });
        if let Err(OutOfStep) = taken {
            return Err(StoreError::unavailable("Redis gave a reply that nobody asked for"));
        }
        parsed.map(|()| answered)
    }
}

//! [`ExchangeState`]: what the callers of a connection and its task share, and how it ends.
//!
//! Two locks. `io` is held by the reader, which is the task, or a caller in its place; `inner` is
//! held for moments. `io` is locked first.
//!
//! `inner` is never held while callers' wakers, answers or anything else that is foreign runs. `io`
//! is, which is safe because callers only `try_lock` it: one that a waker runs at once goes on
//! without it. Under `inner` only the two tasks are woken, whose wakers are tokio's and run
//! nothing.

use std::future::Future;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::timeouts::Timeouts;
use crate::error::StoreError;
use crate::store::redis::connection::queue::deliveries::Deliveries;
use crate::store::redis::connection::queue::{InFlightQueue, Sharing};
use crate::store::redis::wire::incoming::Incoming;
use crate::store::redis::wire::stream::{SocketHandle, Stream, WriteHalf};

/// How long the task may wait for its turn before callers do its work.
pub(super) const STARVED: Duration = Duration::from_micros(500);

/// How a connection ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) error: StoreError,
    /// Whether another connection is likely to succeed at once.
    pub(crate) reconnect_now: bool,
    /// Whether a caller ever sent anything on it; what the supervisor asks does not count.
    pub(crate) was_used: bool,
}

pub(super) struct ExchangeState {
    pub(super) io: Mutex<Io>,
    inner: Mutex<Inner>,
    ended: watch::Sender<Option<Ended>>,
    pub(super) socket: SocketHandle,
}

/// What the one who reads has to itself.
pub(super) struct Io {
    pub(super) incoming: Incoming,
    pub(super) deliveries: Deliveries,
}

pub(super) struct Inner {
    pub(super) queue: InFlightQueue,
    pub(super) timeouts: Timeouts,
    writer: WriteHalf,
    /// The waker of the task while that waits; `None` if it was woken and has not run yet.
    pub(super) task: Option<Waker>,
    /// Of a task that was woken: when it should have run; put off when a caller works in its place.
    /// Of one that waits: from when a caller that comes wakes it, so that it reads at least every
    /// [`STARVED`] of traffic.
    pub(super) task_due_at: Instant,
    pub(super) last_byte_at: Instant,
    pub(super) gathering: Gathering,
    /// How often everything that had come was read.
    pub(super) reads: u64,
    /// How often callers have sent something on it.
    pub(super) uses: u64,
    /// Another connection has taken its place: it ends once all that is in flight has been
    /// answered.
    pub(super) retired: bool,
    pub(super) ended: bool,
}

/// Whether the task lets others run before it sends what they leave to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gathering {
    No,
    /// A caller has left something to the task, which lets others run at its next turn.
    Wanted,
    /// The task has let others run once, and has woken itself: at its next turn it sends.
    Now,
}

impl ExchangeState {
    pub(super) fn new(stream: Stream, sharing: Sharing) -> Self {
        let now = Instant::now();
        let Stream { reader, writer, socket } = stream;
        let inner = Inner {
            queue: InFlightQueue::new(sharing),
            timeouts: Timeouts::default(),
            writer,
            task: None,
            task_due_at: now + STARVED,
            last_byte_at: now,
            gathering: Gathering::No,
            reads: 0,
            uses: 0,
            retired: false,
            ended: false,
        };
        let io = Io { incoming: Incoming::new(reader), deliveries: Deliveries::default() };
        Self { io: Mutex::new(io), inner: Mutex::new(inner), ended: watch::Sender::new(None), socket }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection, if it has not ended yet.
    pub(super) fn close(&self, error: StoreError, reconnect_now: bool) {
        let mut deliveries = Deliveries::default();
        let was_used = {
            let mut inner = self.lock();
            if inner.ended {
                return;
            }
            inner.ended = true;
            inner.queue.close(&error, &mut deliveries);
            inner.writer = Box::pin(tokio::io::sink());
            inner.wake();
            inner.uses > 0
        };
        // Before the callers: it shortens their wait in `Node::changed` for the next connection.
        // Until the supervisor has published the end, `is_over` turns them away.
        self.ended.send_replace(Some(Ended { error, reconnect_now, was_used }));
        deliveries.deliver();
    }

    /// Waits for the end.
    pub(super) fn ended(&self) -> impl Future<Output = Ended> + Send + use<> {
        let mut ended = self.ended.subscribe();
        async move {
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            ended.unwrap_or_else(|| Ended { error: closed(), reconnect_now: false, was_used: false })
        }
    }
}

impl Inner {
    /// Wakes the task, if it waits.
    pub(super) fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            self.task_due_at = Instant::now() + STARVED;
            task.wake();
        }
    }

    /// Whether nothing is in flight, nor waits, nor is about to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.gathering == Gathering::No
    }

    /// Whether nothing more can be sent.
    pub(super) fn is_over(&self) -> bool {
        self.ended || self.retired
    }

    /// Whether the task was woken, and has not had its turn for long.
    pub(super) fn is_starved(&self, now: Instant) -> bool {
        self.task.is_none() && !self.ended && now > self.task_due_at
    }

    /// Writes from a caller's own turn, on an idle connection. What the system does not take, and
    /// what goes wrong, is left to the task.
    ///
    /// The socket keeps one waker for writes, and this takes its place with one that does nothing.
    /// No wake-up is lost: while the connection is idle the task has no write pending, and after
    /// `Pending`, also from a used-up budget of the runtime, the task is woken to write itself.
    pub(super) fn write_at_once(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        if !matches!(self.write(&mut cx), Poll::Ready(Ok(()))) {
            self.wake();
        }
    }

    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queue.outgoing.is_empty() {
            match self.writer.as_mut().poll_write(cx, &self.queue.outgoing) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => self.queue.note_sent(bytes),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.writer.as_mut().poll_flush(cx)
    }
}

pub(super) fn closed() -> StoreError {
    StoreError::unavailable("the connection to Redis is closed")
}

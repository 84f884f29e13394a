//! [`Exchange`]: one open connection. Questions go out in order, and the answers come back in the same order.
//!
//! The connection has a task that reads, and writes what callers leave to it. A caller who finds the connection idle
//! writes by itself, so that a lone caller waits for nobody but the server. Where a flood of callers keeps the task
//! from running, the callers do its work while they are polled. Every reply is taken in and looked at in
//! order, also when its caller has given up: a reply that cannot belong to its question ends the connection before a
//! later one gets to the wrong caller.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use redis::Value;
use tokio::io::ReadBuf;
use tokio::sync::{oneshot, watch};

use super::question::{Answer, NoAnswer, Question};
use super::queue::{Delivery, Queue};
use super::resp::{Parsed, parse};
use super::stream::{Handle, Reader, Stream, Writer};
use crate::error::StoreError;

/// After this long without traffic, a connection is looked at before it is used.
const IDLE: Duration = Duration::from_millis(100);
/// How long the task may wait for its turn before callers do its work.
const STARVED: Duration = Duration::from_micros(500);
/// How many bytes are read at once.
const CHUNK: usize = 16 * 1024;

/// How a connection ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) error: StoreError,
    /// Whether another connection is likely to succeed at once.
    pub(super) hopeful: bool,
    /// Whether anybody ever asked something on it.
    pub(super) was_used: bool,
}

#[derive(Clone)]
pub(super) struct Exchange {
    shared: Arc<Shared>,
}

struct Shared {
    /// Locked before `inner`, by whoever does the work of the task.
    io: Mutex<Io>,
    inner: Mutex<Inner>,
    ended: watch::Sender<Option<Ended>>,
    socket: Handle,
}

struct Inner {
    queue: Queue,
    writer: Writer,
    /// The connection's task, when it waits; none if it was woken and has not had its turn yet.
    task: Option<Waker>,
    /// When it was woken, or somebody last worked in its place.
    woken: Instant,
    heard: Instant,
    /// How often the task has found nothing to read.
    turns: u64,
    was_used: bool,
    ended: bool,
}

impl Exchange {
    /// Starts on an open connection on which everything that was asked has been answered. It lives as long as the
    /// future runs, which is its task.
    pub(super) fn start(stream: Stream) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let now = Instant::now();
        let Stream { reader, writer, socket } = stream;
        let queue = Queue::new(now);
        let inner =
            Inner { queue, writer, task: None, woken: now, heard: now, turns: 0, was_used: false, ended: false };
        let io = Io {
            reader,
            chunk: vec![0; CHUNK].into(),
            buffer: Vec::new(),
            replies: Vec::new(),
            deliveries: Vec::new(),
        };
        let (io, inner) = (Mutex::new(io), Mutex::new(inner));
        let shared = Arc::new(Shared { io, inner, ended: watch::Sender::new(None), socket });
        let task = Task(Arc::clone(&shared));
        (Self { shared }, async move { poll_fn(|cx| task.poll(cx)).await })
    }

    /// Asks a question; dropping the returned future takes back what has not been sent.
    pub(super) fn ask(&self, question: Question) -> impl Future<Output = Answer> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let now = Instant::now();
        let mut inner = self.shared.lock();
        if inner.ended {
            let _ = sender.send(Err(NoAnswer::NotAsked));
        } else {
            inner.was_used = true;
            let was_idle = inner.queue.is_idle();
            let is_to_be_sent = inner.queue.ask(question, sender, now);
            let is_fresh = now.saturating_duration_since(inner.heard) < IDLE;
            if !was_idle {
                if is_to_be_sent {
                    inner.wake();
                }
                if inner.is_starved(now) {
                    drop(inner);
                    self.shared.work();
                }
            } else if is_fresh || self.shared.socket.is_quiet() {
                inner.write_at_once();
            } else {
                drop(inner);
                self.close(StoreError::unavailable("Redis has closed the connection"), true);
            }
        }
        async move { receiver.await.unwrap_or(Err(NoAnswer::NotAsked)) }
    }

    /// Sends a PING ahead of all waiting questions.
    pub(super) fn ping(&self) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.shared.lock();
        if !inner.ended {
            inner.queue.ping(Some(sender), Instant::now());
            inner.wake();
        }
        receiver
    }

    /// From now on, questions are answered with this error, if there is one.
    pub(super) fn refuse(&self, error: Option<StoreError>) {
        let mut deliveries = Vec::new();
        self.shared.lock().queue.refuse(error, &mut deliveries);
        deliver(&mut deliveries);
    }

    /// When the last byte came, and how often nothing was found to be read. The next time is soon.
    pub(super) fn look(&self) -> (Instant, u64) {
        let mut inner = self.shared.lock();
        inner.wake();
        (inner.heard, inner.turns)
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether it can be used, as far as the system knows.
    pub(super) fn is_open(&self) -> bool {
        !self.shared.lock().ended && self.shared.socket.is_quiet()
    }

    /// Ends the connection.
    pub(super) fn close(&self, error: StoreError, hopeful: bool) {
        self.shared.close(error, hopeful);
    }

    /// Waits for the end.
    pub(super) fn ended(&self) -> impl Future<Output = Ended> + Send + use<> {
        let mut ended = self.shared.ended.subscribe();
        async move {
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            ended.unwrap_or_else(|| Ended {
                error: StoreError::unavailable("the connection to Redis is closed"),
                hopeful: false,
                was_used: false,
            })
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn io(&self) -> MutexGuard<'_, Io> {
        self.io.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work of the task, from the turn of a caller.
    fn work(&self) {
        let Ok(mut io) = self.io.try_lock() else { return };
        // Only the task registers itself to be woken, so that must not have happened: it would be undone here.
        if !self.lock().is_starved(Instant::now()) {
            return;
        }
        let mut cx = Context::from_waker(Waker::noop());
        let worked = io.advance(self, &mut cx, false);
        drop(io);
        match worked {
            Poll::Ready(Err(error)) => self.close(error, true),
            Poll::Ready(Ok(())) => {}
            Poll::Pending => self.lock().woken = Instant::now(),
        }
    }

    fn close(&self, error: StoreError, hopeful: bool) {
        let mut deliveries = Vec::new();
        let was_used = {
            let mut inner = self.lock();
            if inner.ended {
                return;
            }
            inner.ended = true;
            inner.queue.close(&error, &mut deliveries);
            inner.writer = Box::pin(tokio::io::sink());
            inner.wake();
            inner.was_used
        };
        // Whoever is told looks for the next connection: this one must be known to be over.
        self.ended.send_replace(Some(Ended { error, hopeful, was_used }));
        deliver(&mut deliveries);
    }
}

impl Inner {
    fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            self.woken = Instant::now();
            task.wake();
        }
    }

    fn is_starved(&self, now: Instant) -> bool {
        self.task.is_none() && !self.ended && now.saturating_duration_since(self.woken) > STARVED
    }

    /// Writes from the caller's own turn. What the system does not take, and what goes wrong, is left to the task.
    fn write_at_once(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        if !matches!(self.write(&mut cx), Poll::Ready(Ok(()))) {
            self.wake();
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queue.outgoing.is_empty() {
            match self.writer.as_mut().poll_write(cx, &self.queue.outgoing) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => self.queue.sent(sent),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.writer.as_mut().poll_flush(cx)
    }
}

/// The task of a connection.
struct Task(Arc<Shared>);

impl Task {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut io = self.0.io();
        let worked = io.advance(&self.0, cx, true);
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

/// Reads, and writes.
struct Io {
    reader: Reader,
    chunk: Box<[u8]>,
    /// What has been read, and is no whole reply yet.
    buffer: Vec<u8>,
    replies: Vec<Value>,
    deliveries: Vec<Delivery>,
}

impl Io {
    /// Until there is nothing to be read and nothing to be written. `registers` if that is the task, which is woken for
    /// more.
    fn advance(&mut self, shared: &Shared, cx: &mut Context<'_>, registers: bool) -> Poll<Result<(), StoreError>> {
        let worked = self.read_and_write(shared, cx, registers);
        deliver(&mut self.deliveries);
        worked
    }

    fn read_and_write(
        &mut self,
        shared: &Shared,
        cx: &mut Context<'_>,
        registers: bool,
    ) -> Poll<Result<(), StoreError>> {
        while self.read(cx)?.is_ready() {
            self.take_in(shared)?;
            // Those who have their answers need not wait for the rest.
            deliver(&mut self.deliveries);
        }
        let mut inner = shared.lock();
        if inner.ended {
            return Poll::Ready(Ok(()));
        }
        inner.turns += 1;
        inner.queue.move_up(Instant::now(), &mut self.deliveries);
        if let Poll::Ready(Err(error)) = inner.write(cx) {
            return Poll::Ready(Err(lost(error)));
        }
        // Whoever comes from now on finds somebody to wake.
        if registers && !inner.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            inner.task = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Reads once. Ready when something has come.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, StoreError> {
        let mut chunk = ReadBuf::new(&mut self.chunk);
        let result = self.reader.as_mut().poll_read(cx, &mut chunk);
        let came = chunk.filled().len();
        self.buffer.extend_from_slice(chunk.filled());
        match result {
            Poll::Ready(Ok(())) if came == 0 => Err(StoreError::unavailable("Redis has closed the connection")),
            Poll::Ready(Ok(())) => Ok(Poll::Ready(())),
            Poll::Ready(Err(error)) => Err(lost(error)),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Takes in the replies that have come.
    fn take_in(&mut self, shared: &Shared) -> Result<(), StoreError> {
        // Read first, so that callers are kept waiting for a moment only.
        let mut rest = self.buffer.as_slice();
        let is_malformed = loop {
            let taken = match parse(rest) {
                Parsed::Reply(reply, taken) => {
                    self.replies.push(reply);
                    taken
                }
                Parsed::Push(taken) => taken,
                Parsed::Incomplete => break false,
                Parsed::Malformed => break true,
            };
            rest = rest.get(taken..).unwrap_or_default();
        };
        let taken = self.buffer.len() - rest.len();
        self.buffer.drain(..taken);

        let now = Instant::now();
        let mut inner = shared.lock();
        inner.heard = now;
        for reply in self.replies.drain(..) {
            if inner.queue.reply(reply, now, &mut self.deliveries).is_err() {
                return Err(StoreError::unavailable("Redis gave a reply that nobody asked for"));
            }
        }
        if is_malformed {
            return Err(StoreError::unavailable("what answers at this address does not speak the protocol of Redis"));
        }
        Ok(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.close(StoreError::unavailable("the connection to Redis is closed"), false);
        // Others may still have references to the rest; the socket is given back now.
        self.0.io().reader = Box::pin(tokio::io::empty());
    }
}

fn lost(error: io::Error) -> StoreError {
    StoreError::unavailable(format!("the connection to Redis was lost: {error}")).with_source(error)
}

fn deliver(deliveries: &mut Vec<Delivery>) {
    for (caller, answer) in deliveries.drain(..) {
        let _ = caller.send(answer);
    }
}

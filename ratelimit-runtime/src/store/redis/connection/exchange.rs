//! [`Exchange`]: one open connection. Questions go out in order, and the answers come back in the same order.
//!
//! The connection has a task that reads, and writes what callers leave to it. A caller who finds the connection idle
//! writes by itself, so that a lone caller waits for nobody but the server. Where a flood of callers keeps the task
//! from running, the callers do its work while they are polled. Every reply is taken in and looked at in
//! order, also when its caller has given up: a reply that cannot belong to its question ends the connection before a
//! later one gets to the wrong caller.
//!
//! Decisions of callers who come at the same time share a call. So that they can, the task lets everybody who is ready to run
//! go first, before it sends what has been gathered.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use super::queue::replies::OutOfStep;
use super::queue::{Deliveries, Queue, Sharing};
use crate::error::StoreError;
use crate::store::redis::batching::item::Item;
use crate::store::redis::batching::members::Decided;
use crate::store::redis::wire::incoming::{Incoming, lost};
use crate::store::redis::wire::question::{Answer, NoAnswer, Question};
use crate::store::redis::wire::stream::{Handle, Stream, Writer};

/// After this long without traffic, a connection is looked at before it is used.
const IDLE: Duration = Duration::from_millis(100);
/// How long the task may wait for its turn before callers do its work.
const STARVED: Duration = Duration::from_micros(500);

/// How a connection ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(crate) error: StoreError,
    /// Whether another connection is likely to succeed at once.
    pub(super) hopeful: bool,
    /// Whether anybody ever asked something on it.
    pub(super) was_used: bool,
}

#[derive(Clone)]
pub(crate) struct Exchange {
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
    /// Until then it may wait for its turn, since it was woken or somebody last worked in its place.
    patient_until: Instant,
    heard: Instant,
    /// How far the task is with sending what callers leave to it.
    gathering: Gathering,
    /// How often the task has found nothing to read.
    turns: u64,
    was_used: bool,
    /// Another connection has taken its place: it ends once all that is on its way has been answered.
    retired: bool,
    ended: bool,
}

/// Whether others are let go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gathering {
    No,
    /// From the task's next turn to the one after.
    Wanted,
    /// Up to its next turn, which comes by itself.
    Now,
}

impl Exchange {
    /// Starts on an open connection on which everything that was asked has been answered. It lives as long as the
    /// future runs, which is its task.
    pub(super) fn start(stream: Stream, sharing: Sharing) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let now = Instant::now();
        let Stream { reader, writer, socket } = stream;
        let inner = Inner {
            queue: Queue::new(sharing),
            writer,
            task: None,
            patient_until: now + STARVED,
            heard: now,
            gathering: Gathering::No,
            turns: 0,
            was_used: false,
            retired: false,
            ended: false,
        };
        let io = Io { incoming: Incoming::new(reader), deliveries: Deliveries::default() };
        let (io, inner) = (Mutex::new(io), Mutex::new(inner));
        let shared = Arc::new(Shared { io, inner, ended: watch::Sender::new(None), socket });
        let task = Task(Arc::clone(&shared));
        (Self { shared }, async move { poll_fn(|cx| task.poll(cx)).await })
    }

    /// Asks a question; dropping the returned future takes back what has not been sent.
    pub(crate) fn ask(&self, question: Question) -> impl Future<Output = Answer> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let now = Instant::now();
        let mut inner = self.shared.lock();
        if inner.is_over() {
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

    /// Asks for a decision; dropping the returned future takes back what has not been sent.
    pub(crate) async fn decide(&self, item: &Item<'_>) -> Decided {
        let mut place = None;
        poll_fn(|cx| match &mut place {
            None => match self.enter(item, cx.waker()) {
                Ok(entered) => {
                    place = Some(entered);
                    Poll::Pending
                }
                Err(why) => Poll::Ready(Err(why)),
            },
            Some(place) => place.poll(cx),
        })
        .await
    }

    fn enter(&self, item: &Item<'_>, waker: &Waker) -> Result<Place, NoAnswer> {
        let now = Instant::now();
        let mut inner = self.shared.lock();
        if inner.is_over() {
            return Err(NoAnswer::NotAsked);
        }
        let was_idle = inner.queue.is_idle() && inner.gathering == Gathering::No;
        if was_idle && now.saturating_duration_since(inner.heard) >= IDLE && !self.shared.socket.is_quiet() {
            drop(inner);
            self.close(StoreError::unavailable("Redis has closed the connection"), true);
            return Err(NoAnswer::NotAsked);
        }
        inner.was_used = true;
        let member = inner.queue.decide(item, waker, now)?;
        let place = Place { shared: Arc::clone(&self.shared), member: Some(member) };
        if was_idle {
            let mut deliveries = Deliveries::default();
            inner.queue.move_up(now, &mut deliveries);
            inner.write_at_once();
            drop(inner);
            deliveries.deliver();
            return Ok(place);
        }
        if inner.gathering == Gathering::No && inner.queue.has_turn() {
            inner.gathering = Gathering::Wanted;
            inner.wake();
        } else if now > inner.patient_until {
            // In a flood of callers the runtime may not come to tell the task that a reply is there.
            inner.wake();
        }
        if inner.is_starved(now) {
            drop(inner);
            self.shared.work();
        }
        Ok(place)
    }

    /// Sends a PING ahead of all waiting questions.
    pub(crate) fn ping(&self) -> oneshot::Receiver<Answer> {
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
        let mut deliveries = Deliveries::default();
        self.shared.lock().queue.refuse(error, &mut deliveries);
        deliveries.deliver();
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
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.lock().is_over() && self.shared.socket.is_quiet()
    }

    /// Whether it is known to be over.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.lock().is_over()
    }

    /// Takes no more questions, and hands those back that have not been asked. It ends by itself once all others have been
    /// answered.
    pub(super) fn retire(&self) {
        let mut deliveries = Deliveries::default();
        let mut inner = self.shared.lock();
        inner.retired = true;
        inner.queue.hand_back(&mut deliveries);
        inner.wake();
        drop(inner);
        deliveries.deliver();
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
            Poll::Pending => self.lock().patient_until = Instant::now() + STARVED,
        }
    }

    fn close(&self, error: StoreError, hopeful: bool) {
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
            inner.was_used
        };
        // Whoever is told looks for the next connection: this one must be known to be over.
        self.ended.send_replace(Some(Ended { error, hopeful, was_used }));
        deliveries.deliver();
    }
}

impl Inner {
    fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            self.patient_until = Instant::now() + STARVED;
            task.wake();
        }
    }

    /// Whether nothing more can be asked.
    fn is_over(&self) -> bool {
        self.ended || self.retired
    }

    fn is_starved(&self, now: Instant) -> bool {
        self.task.is_none() && !self.ended && now > self.patient_until
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

/// Somebody who waits for a decision.
struct Place {
    shared: Arc<Shared>,
    /// Until the answer has been taken.
    member: Option<usize>,
}

impl Place {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Decided> {
        let Some(member) = self.member else { return Poll::Ready(Err(NoAnswer::NotAsked)) };
        let decided = self.shared.lock().queue.decided(member, cx.waker());
        match decided {
            Ok(decided) => {
                self.member = None;
                Poll::Ready(decided)
            }
            Err(_former_waker) => Poll::Pending,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(member) = self.member.take() {
            let waker = self.shared.lock().queue.give_up(member);
            drop(waker);
        }
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
    incoming: Incoming,
    deliveries: Deliveries,
}

impl Io {
    /// Until there is nothing to be read and nothing to be written. `registers` if that is the task, which is woken for
    /// more.
    fn advance(&mut self, shared: &Shared, cx: &mut Context<'_>, registers: bool) -> Poll<Result<(), StoreError>> {
        let worked = self.read_and_write(shared, cx, registers);
        self.deliveries.deliver();
        worked
    }

    fn read_and_write(
        &mut self,
        shared: &Shared,
        cx: &mut Context<'_>,
        registers: bool,
    ) -> Poll<Result<(), StoreError>> {
        let mut decisions = 0;
        while self.incoming.read(cx)?.is_ready() {
            decisions += self.take_in(shared)?;
            // Those who have their answers need not wait for the rest.
            self.deliveries.deliver();
        }
        let mut inner = shared.lock();
        if inner.ended {
            return Poll::Ready(Ok(()));
        }
        inner.turns += 1;
        // Whoever has been answered may have more to ask.
        let gathers = match inner.gathering {
            Gathering::No => registers && decisions > 1 && !inner.queue.has_share(),
            Gathering::Wanted => registers,
            Gathering::Now => false,
        };
        if gathers {
            inner.gathering = Gathering::Now;
        } else {
            inner.gathering = Gathering::No;
            inner.queue.move_up(Instant::now(), &mut self.deliveries);
        }
        if let Poll::Ready(Err(error)) = inner.write(cx) {
            return Poll::Ready(Err(lost(error)));
        }
        if inner.retired && inner.queue.is_idle() {
            return Poll::Ready(Ok(()));
        }
        if gathers {
            // The next turn comes after all who are ready to run.
            inner.task = None;
            inner.patient_until = Instant::now() + STARVED;
            cx.waker().wake_by_ref();
        } else if registers && !inner.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            // Whoever comes from now on finds somebody to wake.
            inner.task = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Takes in the replies that have come; says how many decisions they brought.
    fn take_in(&mut self, shared: &Shared) -> Result<usize, StoreError> {
        // Looked at first, so that callers are kept waiting for a moment only.
        let parsed = self.incoming.parse();
        let now = Instant::now();
        let mut inner = shared.lock();
        inner.heard = now;
        let mut decisions = 0;
        let taken = self.incoming.take(|reply| {
            decisions += inner.queue.reply(reply, now, &mut self.deliveries)?;
            Ok(())
        });
        if let Err(OutOfStep) = taken {
            return Err(StoreError::unavailable("Redis gave a reply that nobody asked for"));
        }
        parsed.map(|()| decisions)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.close(StoreError::unavailable("the connection to Redis is closed"), false);
        // Others may still have references to the rest; the socket is given back now.
        self.0.io().incoming.close();
    }
}

//! The turn of other tasks, where refusals keep a thread: [`poll_give_way`].
//!
//! A refusal that is known takes less than a microsecond, and a caller that asks again as soon as
//! it is refused waits for nothing else. To be put behind all tasks that are ready, as by
//! `yield_now`, is not enough where thousands do so. They go round in the queues of their threads,
//! and a scheduler of several threads looks at its common queue five thousand times a second: a
//! task there, such as that of a connection, waits for seconds. So a task that gives way among
//! others waits in a line that is no queue of the scheduler's. The pacer, a task of the runtime,
//! lets a few at a time go on, however long the line is.
//!
//! *Measured* with 10,000 such callers on two threads, beside a flood without the deny cache: nine
//! of ten sleeps of 2 ms on the runtime came no later, and one of a hundred 0.2 to 2 times as late.
//! Where tasks only yielded, one of a hundred came 6 times as late, after a second, and so did the
//! task of the connection.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tokio::runtime::{Handle, Id};
use tokio::task::yield_now;

/// The clock is read for one refusal of so many. For one of four, a lone caller was refused 0.95
/// times as often.
const LOOK_EVERY: u8 = 32;
/// How long refusals may keep a thread while others stand in line. Ten thousand are round in some
/// 30 ms then: so long may wait who was refused only once, at the end of a slice.
const SLICE: Duration = Duration::from_micros(5);
/// How long they may while nobody does. A lone caller that gave way after each [`SLICE`] was
/// refused 0.4 times as often as one that kept its thread; after this, 0.97 times.
const LONE_SLICE: Duration = Duration::from_micros(500);
/// How many go on at each turn of the pacer. Up to 16 were alike; 64 fill the queues again.
const TURNS: usize = 4;

/// The tasks of one runtime that have given way on one thread. While there are any, a pacer runs.
struct Line {
    runtime: Id,
    waiting: Mutex<VecDeque<Waker>>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ready, or pending once where refusals have kept this thread for too long: a caller that asks
/// again and again is answered at once each time, and other tasks have to run.
#[inline]
pub(crate) fn poll_give_way(cx: &mut Context<'_>) -> Poll<()> {
    if is_due() {
        poll_slice(cx)
    } else {
        Poll::Ready(())
    }
}

/// Whether it is this refusal for which [`poll_slice`] looks at the clock.
#[inline]
pub(crate) fn is_due() -> bool {
    thread_local! {
        static REFUSALS: Cell<u8> = const { Cell::new(0) };
    }
    let refusals = REFUSALS.get().wrapping_add(1);
    REFUSALS.set(refusals);
    refusals.is_multiple_of(LOOK_EVERY)
}

/// [`poll_give_way`] of a refusal that [is due](is_due).
#[cold]
pub(crate) fn poll_slice(cx: &mut Context<'_>) -> Poll<()> {
    thread_local! {
        /// When a task last gave way on this thread, and the address of its waker.
        static LAST: Cell<Option<(Instant, usize)>> = const { Cell::new(None) };
        static LINE: Cell<Option<Arc<Line>>> = const { Cell::new(None) };
    }
    let (now, task) = (Instant::now(), cx.waker().data().addr());
    let (since, last) = LAST.get().unwrap_or_else(|| {
        LAST.set(Some((now, task)));
        (now, task)
    });
    let kept = now.duration_since(since);
    if kept < SLICE {
        return Poll::Ready(());
    }
    let line = LINE.take();
    let is_alone = line.as_ref().is_none_or(|line| line.lock().is_empty());
    if is_alone && kept < LONE_SLICE {
        LINE.set(line);
        return Poll::Ready(());
    }
    LAST.set(Some((now, task)));
    match Handle::try_current() {
        Ok(runtime) if !is_alone || last != task => {
            LINE.set(Some(stand(line, &runtime, cx.waker())));
            Poll::Pending
        }
        // Nobody else is refused here: to go behind the tasks that are ready is enough.
        _ => {
            LINE.set(line);
            pin!(yield_now()).poll(cx)
        }
    }
}

/// Puts a task in line, which is this one if it is of this runtime.
fn stand(line: Option<Arc<Line>>, runtime: &Handle, waker: &Waker) -> Arc<Line> {
    let line = line.filter(|line| line.runtime == runtime.id());
    let line = line.unwrap_or_else(|| {
        Arc::new(Line {
            runtime: runtime.id(),
            waiting: Mutex::default(),
        })
    });
    let mut waiting = line.lock();
    waiting.push_back(waker.clone());
    let is_first = waiting.len() == 1;
    drop(waiting);
    if is_first {
        // The pacer of those before has ended, or does: it looks under the lock.
        runtime.spawn(pace(Arc::clone(&line)));
    }
    line
}

/// Lets those in line go on, first come, first served. Whoever is gone meanwhile is woken in vain.
async fn pace(line: Arc<Line>) {
    let mut is_last = false;
    while !is_last {
        yield_now().await;
        let mut waiting = line.lock();
        let turns = waiting.len().min(TURNS);
        let turns: SmallVec<[Waker; TURNS]> = waiting.drain(..turns).collect();
        is_last = waiting.is_empty();
        drop(waiting);
        turns.into_iter().for_each(Waker::wake);
    }
}

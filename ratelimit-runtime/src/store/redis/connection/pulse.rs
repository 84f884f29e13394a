//! [`Pulse`]: whether a task gets its turns from its runtime.
//!
//! A current-thread runtime runs its tasks only while a caller blocks on it, and a call that is
//! answered by the fallback blocks for no time at all: the task that would end the outage never
//! runs. So the task says when it is due, and a caller that finds it late waits for it, which
//! drives the runtime.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How often a task that waits for a server is due.
pub(crate) const BEAT: Duration = Duration::from_millis(50);
/// How late a task may be before its runtime counts as not driven.
const LATE: Duration = Duration::from_millis(100);
const NOT_DUE: u64 = u64::MAX;

pub(crate) struct Pulse {
    born: Instant,
    /// Milliseconds after `born`, or [`NOT_DUE`].
    due_ms: AtomicU64,
    is_awaited: AtomicBool,
    progress: Notify,
}

impl Pulse {
    /// Of a task that is not due.
    pub(crate) fn new() -> Self {
        let (due_ms, is_awaited) = (AtomicU64::new(NOT_DUE), AtomicBool::new(false));
        Self { born: Instant::now(), due_ms, is_awaited, progress: Notify::new() }
    }

    /// The task runs again after this time at the latest; without one, when it is asked for
    /// something.
    pub(crate) fn due_in(&self, time: Option<Duration>) {
        let due = time.map_or(NOT_DUE, |time| millis(self.born.elapsed().saturating_add(time)));
        self.due_ms.store(due, Ordering::Release);
    }

    /// The task has published what callers wait for.
    pub(crate) fn progress(&self) {
        self.progress.notify_waiters();
    }

    /// Whether the task is overdue by more than [`LATE`].
    pub(crate) fn is_late(&self) -> bool {
        let due = self.due_ms.load(Ordering::Acquire);
        due != NOT_DUE && millis(self.born.elapsed()) > due.saturating_add(millis(LATE))
    }

    /// Drives the runtime until a late task has made progress. One caller at a time does: the
    /// others are not held up.
    pub(crate) async fn catch_up(&self) {
        if !self.is_late() || self.is_awaited.swap(true, Ordering::AcqRel) {
            return;
        }
        let _awaiting = Awaiting(&self.is_awaited);
        let mut progress = pin!(self.progress.notified());
        progress.as_mut().enable();
        // Looked at again once enabled: progress before that does not notify.
        if self.is_late() {
            progress.await;
        }
    }
}

/// Marks that a caller waits.
struct Awaiting<'a>(&'a AtomicBool);

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Of a task that was due this long ago.
    fn due_ago(ago: Duration) -> Pulse {
        let pulse = Pulse::new();
        let born = Instant::now().checked_sub(Duration::from_secs(10)).unwrap_or(pulse.born);
        let pulse = Pulse { born, ..pulse };
        pulse.due_ms.store(millis(pulse.born.elapsed().saturating_sub(ago)), Ordering::Release);
        pulse
    }

    fn poll(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_task_that_is_on_time_is_not_waited_for() {
        assert!(!Pulse::new().is_late());
        for pulse in [Pulse::new(), due_ago(LATE / 2)] {
            assert!(poll(pin!(pulse.catch_up())).is_ready());
        }
        let pulse = due_ago(LATE * 2);
        assert!(pulse.is_late());
        pulse.due_in(Some(BEAT));
        assert!(!pulse.is_late());
        pulse.due_in(Some(Duration::MAX));
        assert!(!pulse.is_late());
    }

    #[test]
    fn one_caller_waits_until_a_late_task_has_made_progress() {
        let pulse = due_ago(LATE * 2);
        let mut first = Box::pin(pulse.catch_up());
        assert!(poll(first.as_mut()).is_pending());
        assert!(poll(pin!(pulse.catch_up())).is_ready(), "the others go on");
        pulse.due_in(Some(BEAT));
        assert!(poll(first.as_mut()).is_pending(), "a turn alone is no progress");
        pulse.progress();
        assert!(poll(first.as_mut()).is_ready());
    }

    #[test]
    fn a_caller_that_is_cancelled_leaves_waiting_to_the_next() {
        let pulse = due_ago(LATE * 2);
        let mut first = Box::pin(pulse.catch_up());
        assert!(poll(first.as_mut()).is_pending());
        drop(first);
        assert!(poll(pin!(pulse.catch_up())).is_pending());
    }
}

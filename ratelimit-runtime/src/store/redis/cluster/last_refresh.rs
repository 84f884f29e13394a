//! [`LastRefresh`]: when the slots were last asked for, and whether that goes on.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

/// The slots are asked for no more often than this.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// How long after its last turn its runtime counts as not driven.
const LATE: Duration = Duration::from_millis(150);

/// The last refresh.
#[derive(Debug, Default)]
pub(super) struct LastRefresh {
    pub(super) task: Option<JoinHandle<()>>,
    /// When it began to ask, or will.
    pub(super) at: Option<Instant>,
    /// When its task had its last turn, or will have the first one.
    pub(super) turn: Option<Instant>,
}

impl LastRefresh {
    /// How long another one is to wait.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        self.at.map_or(Duration::ZERO, |at| (at + ASK_EVERY).saturating_duration_since(now))
    }

    pub(super) fn is_running(&self) -> bool {
        self.task.as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Whether its runtime does not drive it.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.is_running() && self.turn.is_some_and(|turn| now > turn + LATE)
    }

    pub(super) fn end(&self) {
        self.task.iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_refresh_at_a_time_every_quarter_of_a_second() {
        let now = Instant::now();
        assert_eq!(LastRefresh::default().pause(now), Duration::ZERO);
        let last = |task| LastRefresh { task: Some(task), at: Some(now), turn: Some(now) };
        let running = last(tokio::spawn(std::future::pending()));
        assert_eq!(running.pause(now + Duration::from_millis(10)), Duration::from_millis(240));
        assert_eq!(running.pause(now + Duration::from_secs(1)), Duration::ZERO);
        assert!(running.is_running() && !running.is_late(now + LATE) && running.is_late(now + LATE * 2));
        let done = last(tokio::spawn(async {}));
        tokio::task::yield_now().await;
        assert!(!done.is_running() && !done.is_late(now + LATE * 2));
    }
}

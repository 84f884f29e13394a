//! [`Yields`]: how often a task goes behind all others that are ready, to let something come first,
//! with a count for each such thing and its reason.

use tokio::task::yield_now;

/// A number of turns that a task gives up. In one turn, the ready tasks of its thread run, and the
/// runtime polls its sockets and timers. Other worker threads have turns of their own.
pub(crate) struct Yields(usize);

/// Enough for callers that were just answered to ask again, if they do so at once: the task of the
/// call is woken in the first turn, its callers in the second; callers that these wake ask in the
/// third.
pub(crate) const CALLERS_RETURN: Yields = Yields(3);

/// Enough for the drivers of connections to read all that has arrived, including the end of a
/// connection: after the first turn the runtime has polled its sockets, and after the second the
/// drivers have run, also those behind a caller that the runtime blocks on.
pub(crate) const SOCKETS_ARE_READ: Yields = Yields(2);

/// Enough for a reply that has arrived to reach the task that asked, among thousands of tasks: the
/// driver of the connection is woken in the first turn and reads in the second, the task is woken
/// in the third and has run after the fourth.
pub(crate) const REPLIES_ARRIVE: Yields = Yields(4);

/// Enough for the tasks that are ready to run once:
///
/// - A call that was handed to its task is sent before the next is made. Two written at once are
///   answered at once: then client and server wait for each other in turns.
/// - A caller that is woken because units were taken ahead spends them before a later one.
/// - A caller that finds the lease of units over puts them back before they are counted.
pub(crate) const READY_TASKS_RUN: Yields = Yields(1);

impl Yields {
    /// Gives up all turns.
    pub(crate) async fn pass(&self) {
        self.pass_while(|| true).await;
    }

    /// Gives up turns while `goes_on`, which is called before each turn, is `true`.
    pub(crate) async fn pass_while(&self, mut goes_on: impl FnMut() -> bool) {
        for _ in 0..self.0 {
            if !goes_on() {
                return;
            }
            yield_now().await;
        }
    }
}

//! [`Yields`]: how often a task goes behind all others that are ready.

use tokio::task::yield_now;

/// A number of turns that a task gives up. In one turn the tasks of its thread that are ready run,
/// and the runtime looks at its sockets and timers. Other worker threads have turns of their own.
pub(crate) struct Yields(usize);

/// Callers that have just been answered ask again, if they do so at once: the task of the call is
/// woken in the first turn, and its callers in the second; those that a caller wakes ask in the
/// third.
pub(crate) const CALLERS_RETURN: Yields = Yields(3);

/// The drivers of connections have read what has arrived, the end of a connection included: at the
/// first return the runtime has looked at its sockets, and by the second the drivers have run, also
/// those behind a caller that the runtime blocks on.
pub(crate) const SOCKETS_ARE_READ: Yields = Yields(2);

/// A reply that has arrived reaches the task that has asked, among thousands of tasks: the driver
/// of the connection is woken in the first turn and reads in the second, the task is woken in the
/// third and has run after the fourth.
pub(crate) const REPLIES_ARRIVE: Yields = Yields(4);

/// A call that is handed to its task is on its way before the next one is made. Two calls that are
/// written at once are answered at once: then client and server wait for each other in turns.
pub(crate) const BETWEEN_CALLS: Yields = Yields(1);

impl Yields {
    /// Gives up all turns.
    pub(crate) async fn pass(&self) {
        self.pass_while(|| true).await;
    }

    /// Gives up turns while `goes_on`, which is asked before each of them.
    pub(crate) async fn pass_while(&self, mut goes_on: impl FnMut() -> bool) {
        for _ in 0..self.0 {
            if !goes_on() {
                return;
            }
            yield_now().await;
        }
    }
}

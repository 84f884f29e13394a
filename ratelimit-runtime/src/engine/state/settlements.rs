//! [`Settlements`]: how many charges of a limiter are being settled.

use tokio::sync::watch;

/// How many there may be.
pub(in crate::engine) const MAX_OPEN: usize = 10_000;

/// How many settlements of a limiter have not ended.
#[derive(Debug, Default)]
pub(in crate::engine) struct Settlements {
    open: watch::Sender<usize>,
    /// Attempts of several steps, which may leave some.
    attempts: watch::Sender<usize>,
}

impl Settlements {
    /// How many there are now.
    pub(in crate::engine) fn open(&self) -> usize {
        *self.open.borrow()
    }

    /// Returns once none is open, and no attempt may leave one.
    pub(in crate::engine) async fn ended(&self) {
        let mut attempts = self.attempts.subscribe();
        let _ = attempts.wait_for(|attempts| *attempts == 0).await;
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    /// Begins another one, if there may be one more. Says whether it has.
    pub(in crate::engine) fn begin(&self) -> bool {
        self.open.send_if_modified(|open| {
            let may_begin = *open < MAX_OPEN;
            *open += usize::from(may_begin);
            may_begin
        })
    }

    /// Ends one of them.
    pub(in crate::engine) fn end(&self) {
        self.open.send_modify(|open| *open -= 1);
    }

    /// Notes that an attempt begins, or ends.
    pub(in crate::engine) fn attempt(&self, begins: bool) {
        self.attempts.send_modify(|attempts| {
            *attempts = if begins { *attempts + 1 } else { *attempts - 1 };
        });
    }
}

//! [`Settlements`]: how many charges of a limiter are being settled.

use tokio::sync::watch;

/// How many settlements of a limiter have not ended.
#[derive(Debug, Default)]
pub(in crate::engine) struct Settlements {
    open: watch::Sender<usize>,
}

impl Settlements {
    /// How many there are now.
    pub(in crate::engine) fn open(&self) -> usize {
        *self.open.borrow()
    }

    /// Returns once none is open.
    pub(in crate::engine) async fn ended(&self) {
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    /// Begins another one, if there are fewer than `max`. Says whether it has.
    pub(in crate::engine) fn begin(&self, max: usize) -> bool {
        self.open.send_if_modified(|open| {
            let may_begin = *open < max;
            *open += usize::from(may_begin);
            may_begin
        })
    }

    /// Ends one of them.
    pub(in crate::engine) fn end(&self) {
        self.open.send_modify(|open| *open -= 1);
    }
}

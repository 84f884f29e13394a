//! What refusals take of the cooperation budget of their task: a caller who asks again and again is answered at once each
//! time, and must not keep its thread from other tasks.

use std::cell::Cell;
use std::task::{Context, Poll};

use tokio::task::coop;

/// Refusals are so quick that so many of them are as much work as what else takes a unit of the budget.
const REFUSALS_PER_UNIT: u8 = 16;

thread_local! {
    /// How many refusals no unit has been taken for.
    static REFUSALS: Cell<u8> = const { Cell::new(0) };
}

#[inline]
pub(super) fn count_refusal() {
    REFUSALS.set(REFUSALS.get().saturating_add(1));
}

/// Whether a unit is due for the refusals that were counted.
#[inline]
pub(crate) fn is_due() -> bool {
    REFUSALS.get() >= REFUSALS_PER_UNIT
}

/// Takes a unit if one is due. It is ready, unless the task has used up its budget.
#[inline]
pub(crate) fn poll(cx: &mut Context<'_>) -> Poll<()> {
    if is_due() { take(cx) } else { Poll::Ready(()) }
}

#[cold]
fn take(cx: &mut Context<'_>) -> Poll<()> {
    REFUSALS.set(0);
    coop::poll_proceed(cx).map(|budget| budget.made_progress())
}

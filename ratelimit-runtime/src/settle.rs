//! Settling: what becomes of a charge once its call is over.
//!
//! Nobody waits for it. A store in memory settles at once; for others a task of the current runtime does it, by the
//! limiter's deadline. There are at most [`MAX_OPEN`] such tasks per process; beyond, and where there is no runtime, a
//! charge stays what it is: it counts until it expires.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::check::Check;
use crate::consult::by_deadline;
use crate::error::{RateLimitError, StoreError};
use crate::local;
use crate::store::Answer;

const MAX_OPEN: usize = 10_000;

static OPEN: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Clone, Copy)]
enum How {
    GiveBack,
    Commit,
}

/// Gives back what a check was charged.
pub(crate) fn give_back(check: &Check, ticket: u64) {
    settle(check, ticket, How::GiveBack);
}

/// Reservations of one call, to be settled by what it returns.
///
/// Dropped without that, because the call was cancelled or panicked, they count.
#[derive(Debug)]
#[must_use = "dropping it counts the call"]
pub struct Held<const N: usize> {
    checks: [Option<(Check, u64)>; N],
}

impl<const N: usize> Held<N> {
    pub(crate) fn new(checks: [Option<(Check, u64)>; N]) -> Self {
        Self { checks }
    }

    /// Says for each attribute, in written order, whether the call counts.
    pub fn settle(mut self, counts: [bool; N]) {
        for (held, counts) in self.checks.iter_mut().zip(counts) {
            if let Some((check, ticket)) = held.take() {
                settle(&check, ticket, if counts { How::Commit } else { How::GiveBack });
            }
        }
    }
}

impl<const N: usize> Drop for Held<N> {
    fn drop(&mut self) {
        for (check, ticket) in self.checks.iter_mut().filter_map(Option::take) {
            settle(&check, ticket, How::Commit);
        }
    }
}

fn settle(check: &Check, ticket: u64, how: How) {
    // What the `allow` policy let through has charged nothing.
    if ticket == 0 {
        return;
    }
    let settled = {
        let Ok(answer) = ask(check, ticket, how) else { return };
        answer.known().map_err(drop)
    };
    match settled {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => report(check.name, how, &error),
        Err(()) => later(check, ticket, how),
    }
}

/// A future that has not been polled has done nothing, so asking twice asks once.
fn later(check: &Check, ticket: u64, how: How) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return report(check.name, how, &StoreError::unavailable("there is no tokio runtime to settle it on"));
    };
    let Some(open) = Open::new() else {
        return report(check.name, how, &StoreError::unavailable("too many charges are being settled"));
    };
    let check = check.clone();
    runtime.spawn(async move {
        if let Ok(answer) = ask(&check, ticket, how)
            && let Err(error) = by_deadline(check.deadline, answer).await
        {
            report(check.name, how, &error);
        }
        drop(open);
    });
}

fn ask(check: &Check, ticket: u64, how: How) -> Result<Answer<'_, bool>, RateLimitError> {
    let request = check.any_request()?;
    let (store, ticket) = local::keeper_of(check.limiter.inner(), ticket);
    Ok(match how {
        How::GiveBack if request.is_reservation() => store.release(request, ticket),
        How::GiveBack => store.refund(request, ticket),
        How::Commit => store.commit(request, ticket),
    })
}

fn report(rule: &str, how: How, error: &StoreError) {
    tracing::debug!(rule, ?how, %error, "a charge could not be settled: it counts until it expires");
}

/// A place among the [`MAX_OPEN`].
struct Open;

impl Open {
    fn new() -> Option<Self> {
        if OPEN.fetch_add(1, Ordering::Relaxed) < MAX_OPEN {
            return Some(Self);
        }
        OPEN.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

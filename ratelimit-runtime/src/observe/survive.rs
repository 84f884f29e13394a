//! [`survive`]: code of the application that observes, and what becomes of its panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the application's recorder or subscriber, which may panic. The panic hook reports that,
/// and it ends here: tasks that connect, renew leases or follow a file would never be started
/// again, and what is dropped during another panic would abort the process.
pub(super) fn survive(observed: impl FnOnce()) {
    // The state that a panic may leave half changed is theirs.
    let _ = catch_unwind(AssertUnwindSafe(observed));
}

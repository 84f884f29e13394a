//! [`survive`]: keeps panics of the application's recorder and subscriber from spreading.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the application's recorder or subscriber, and catches its panic, which the panic hook
/// reports. Otherwise it would end tasks that connect, renew leases or follow a file, which are
/// never started again; and a panic while another one drops values would abort the process.
pub(super) fn survive(observed: impl FnOnce()) {
    // The state that a panic may leave half changed is theirs.
    let _ = catch_unwind(AssertUnwindSafe(observed));
}

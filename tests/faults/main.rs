//! What Redis faults do to callers: each case keeps calls running through the public API while a
//! real server fails and recovers, and gives a row of a table.
//!
//! ```sh
//! cargo test -p ratelimit-tests --test faults                          # all of them, and the table
//! cargo test -p ratelimit-tests --test faults -- standalone::frozen    # those whose name holds this
//! RATELIMIT_FAULTS_REPORT=FILE cargo test …     # and the table goes below the mark of FILE: tests/faults/RESULTS.md
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table")]

mod cluster;
mod harness;
mod leases;
mod logins;
mod names;
mod one;
mod runtimes;
mod sentinel;
mod standalone;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use crate::harness::Case;

/// Cases by the paths of their functions, which are their names.
macro_rules! cases {
    ($($case:path),* $(,)?) => { [$(Case::new(stringify!($case), $case)),*] };
}

fn main() -> ExitCode {
    let cases = standalone::simple().chain(cases![
        standalone::an_address_without_a_host,
        standalone::promoted_without_the_last_writes,
        standalone::clock_set_forward,
        standalone::clock_set_back,
        standalone::several_processes_and_an_outage_that_flaps,
        standalone::replies_that_are_lost,
        standalone::blocks,
        standalone::actual_costs,
        standalone::actual_costs_whose_reply_is_lost,
        standalone::actual_costs_that_are_late,
    ]);
    let cases = cases.chain(cluster::cases()).chain(cases![
        cluster::settled_beside_a_dead_master,
        cluster::random_faults,
    ]);
    let cases = cases
        .chain(sentinel::cases())
        .chain(cases![sentinel::outdated_sentinel_alone]);
    let cases = cases.chain(leases::cases()).chain(cases![
        leases::failed_over_by_sentinel,
        leases::failed_over_without_the_last_writes,
    ]);
    let cases = cases.chain(logins::cases()).chain(cases![
        runtimes::blocked_on,
        runtimes::blocked_on_beside_a_cluster,
        names::resolved_late,
        names::moved,
    ]);
    harness::main(cases.collect())
}

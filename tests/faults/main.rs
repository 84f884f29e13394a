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
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a case that cannot go on fails"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table")]

mod cluster;
mod harness;
mod leases;
mod names;
mod runtimes;
mod sentinel;
mod standalone;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use crate::harness::Case;

/// Cases by the paths of their functions, which are their names.
macro_rules! cases {
    ($($case:path),* $(,)?) => { vec![$(Case::new(stringify!($case), $case)),*] };
}

fn main() -> ExitCode {
    harness::main(cases![
        standalone::started_before_the_server,
        standalone::started_beside_a_frozen_server,
        standalone::an_address_without_a_host,
        standalone::one_attempt_hangs_and_others_are_refused,
        standalone::killed_and_back_empty,
        standalone::killed_and_back_with_its_data,
        standalone::loading,
        standalone::frozen_briefly,
        standalone::frozen_for_seconds,
        standalone::busy_with_an_endless_script,
        standalone::cannot_save,
        standalone::too_few_replicas,
        standalone::out_of_memory,
        standalone::flapping,
        standalone::too_many_clients,
        standalone::cut_in_the_middle_of_replies,
        standalone::all_connections_reset,
        standalone::swallowed,
        standalone::connections_forgotten,
        standalone::garbled,
        standalone::far_away,
        standalone::failed_over,
        standalone::promoted_without_the_last_writes,
        standalone::clock_set_forward,
        standalone::clock_set_back,
        standalone::several_processes_and_an_outage_that_flaps,
        standalone::replies_that_are_lost,
        standalone::blocks,
        standalone::reservations,
        standalone::actual_costs,
        standalone::actual_costs_whose_reply_is_lost,
        standalone::actual_costs_that_are_late,
        cluster::master_killed,
        cluster::master_killed_without_a_replica,
        cluster::frozen_replica,
        cluster::frozen_master,
        cluster::lost_majority,
        cluster::settled_beside_a_dead_master,
        cluster::slots_moved,
        cluster::node_added,
        cluster::node_removed,
        cluster::random_faults,
        sentinel::master_killed,
        leases::killed_and_back_empty,
        leases::frozen_for_seconds,
        leases::connections_killed,
        leases::failed_over_by_sentinel,
        leases::failed_over_without_the_last_writes,
        runtimes::blocked_on,
        runtimes::blocked_on_beside_a_cluster,
        runtimes::stopped_beside_a_cluster,
        names::resolved_late,
        names::moved,
    ])
}

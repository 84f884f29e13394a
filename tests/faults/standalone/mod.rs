//! Faults of one Redis server.

mod actual_costs;
mod clocks;
mod cuts;
mod deaths;
mod edges;
mod freezes;
mod masters;
mod starts;

use std::fs;
use std::path::PathBuf;

pub(crate) use self::actual_costs::{actual_costs, actual_costs_that_are_late, actual_costs_whose_reply_is_lost};
pub(crate) use self::clocks::{clock_set_back, clock_set_forward};
pub(crate) use self::cuts::{
    all_connections_reset, connections_forgotten, cut_in_the_middle_of_replies, far_away, flapping, garbled, swallowed,
    too_many_clients,
};
pub(crate) use self::deaths::{killed_and_back_empty, killed_and_back_with_its_data, loading};
pub(crate) use self::edges::{blocks, replies_that_are_lost, reservations, several_processes_and_an_outage_that_flaps};
pub(crate) use self::freezes::{
    busy_with_an_endless_script, cannot_save, frozen_briefly, frozen_for_seconds, out_of_memory, too_few_replicas,
};
pub(crate) use self::masters::{failed_over, promoted_without_the_last_writes};
pub(crate) use self::starts::{
    an_address_without_a_host, one_attempt_hangs_and_others_are_refused, started_before_the_server,
    started_beside_a_frozen_server,
};
use crate::support::unique;

/// A folder for what servers save, which outlives them.
struct Disk(PathBuf);

impl Disk {
    fn new() -> Self {
        let path = std::env::temp_dir().join(unique("ratelimit-faults"));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

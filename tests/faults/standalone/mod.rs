//! Faults of one Redis server, and of its replica.

mod actual_costs;
mod clocks;
mod connections;
mod edges;
mod masters;
mod servers;

pub(crate) use self::actual_costs::{
    actual_costs, actual_costs_that_are_late, actual_costs_whose_reply_is_lost,
};
pub(crate) use self::clocks::{clock_set_back, clock_set_forward};
pub(crate) use self::edges::{
    an_address_without_a_host, blocks, replies_that_are_lost,
    several_processes_and_an_outage_that_flaps,
};
pub(crate) use self::masters::promoted_without_the_last_writes;
use crate::harness::{Case, Fault};

/// Faults that begin, last and end.
pub(crate) fn simple() -> impl Iterator<Item = Case> {
    let rows = servers::rows().into_iter().chain(connections::rows());
    rows.map(|row| row.case(Fault::play))
        .chain(masters::cases())
}

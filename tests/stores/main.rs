//! What every store has to do, each of them alike: the contract, the algorithms, and the table of
//! what works where.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

#[path = "../support/mod.rs"]
mod support;

mod algorithms;
mod capabilities;
mod clocks;
mod conformance;
mod deny_cache;
mod memory;
mod offences;
mod player;
mod units;

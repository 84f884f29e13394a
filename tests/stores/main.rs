//! What every store has to do, each of them alike: the contract, the algorithms, and the table of
//! what works where.

#[path = "../support/mod.rs"]
mod support;

mod algorithms;
mod capabilities;
mod clocks;
mod conformance;
mod deny_cache;
mod memory;
mod player;
mod refunds;
mod subject;

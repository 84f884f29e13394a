//! The connection to a server: making it, losing it, and what a server that does not serve costs.

#![allow(clippy::print_stdout, reason = "figures for the reader of the log")]

mod cancelled;
mod distance;
mod idle;
mod refusals;
mod runtimes;

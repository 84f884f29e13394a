//! The connection to a server: making it, losing it, and what a server that does not serve costs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::print_stdout, reason = "figures for the reader of the log")]

mod cancelled;
mod distance;
mod idle;
mod refusals;
mod runtimes;

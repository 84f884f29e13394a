//! What once went wrong between this library and its Redis server, on servers that run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "figures, for whoever reads them")]
#![allow(clippy::unchecked_time_subtraction, reason = "shorter from longer constants")]

mod asking;
mod cancelled;
mod connects;
mod handshake;
mod idle;
mod refusals;
mod runtimes;
mod slow;
mod stray;
mod undriven;

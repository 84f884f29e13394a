//! What an operator sees: metrics as Prometheus gets them, events as a subscriber gets them, and
//! the words of guide/observability.md and of the dashboard, which are those of the code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::float_cmp, reason = "counts are whole numbers")]

mod dashboard;
mod decisions;
mod documented;
mod emitted;
mod events;
mod keys;
mod log;
mod panics;
mod permits;
mod redis_server;
mod reentrant;
mod samples;
#[path = "../support/mod.rs"]
mod support;

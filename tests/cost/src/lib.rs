//! The work whose cost is measured: checks in memory beside the same check by `governor`, and
//! decisions on Redis, in the instructions of this process and in those of the server.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    reason = "work that is measured, and no library"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement that cannot go on fails"
)]

mod memory;
mod ours;
mod recording;
mod redis;

pub use self::memory::{Full, Ready, Work};
pub use self::recording::Recording;
pub use self::redis::{
    COLUMNS, CountedServer, LARGE_COLUMNS, Large, Load, OnRedis, STACKED_COLUMNS, Stacked, Table,
    lowered,
};

//! The memory store when it is full, and when threads share it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod minted_keys;
mod overflow;
mod swept;
mod threads;

use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, Store};

use crate::units::{ALGORITHMS, DAY, MINUTE, SECOND, micros, per};

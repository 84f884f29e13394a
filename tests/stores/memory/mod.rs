//! The memory store when it is full, and when threads share it.

mod minted_keys;
mod overflow;
mod swept;
mod threads;

use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, Store};

use crate::units::{ALGORITHMS, DAY, MINUTE, SECOND, micros, per};

//! Tools for tests: a clock they move, and a store that fails on demand. The contract of a store as
//! tests is the crate `ratelimit-conformance`.

mod clock;
mod faults;

pub use clock::FakeClock;
pub use faults::FaultyStore;

//! What tests need: a clock they move, a store that fails on demand, and a conformance suite for
//! every [`Store`].
//!
//! [`Store`]: crate::store::Store

mod clock;
pub mod conformance;
mod faults;
mod reference;

pub use clock::FakeClock;
pub use faults::FaultyStore;
pub use reference::Reference;

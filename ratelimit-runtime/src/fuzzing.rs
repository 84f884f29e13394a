//! What a fuzzer feeds with bytes, one function each: built for `cargo fuzz`, and for the tests
//! that replay what it has found. Each panics if something that holds for all input does not hold
//! for this one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    reason = "a panic is what is looked for; what leads to it is printed"
)]

mod input;
mod key;
#[cfg(feature = "serde")]
mod policy;
#[cfg(test)]
mod replay;

pub use self::key::key;
#[cfg(feature = "serde")]
pub use self::policy::policy;

pub(crate) use self::input::Input;

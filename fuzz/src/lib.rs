//! What a fuzzer feeds with bytes, one function each: built for `cargo fuzz`, and for the tests
//! that replay what it has found. Each panics if something that holds for all input does not hold
//! for this one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a panic is what is looked for"
)]

mod input;
mod key;
mod policy;

use self::input::Input;
pub use self::key::key;
pub use self::policy::policy;

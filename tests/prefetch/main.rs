//! Units that several processes take ahead of one key (`prefetch`) never pass its limit, are spent
//! rather than kept, and are given back.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::print_stdout, reason = "figures for the reader of the log")]
#![allow(
    clippy::cast_precision_loss,
    reason = "numbers of calls and nanoseconds of one test"
)]

mod abreast;
mod fleet;
mod matrix;
mod oracle;
mod player;
mod shares;
#[path = "../support/mod.rs"]
mod support;

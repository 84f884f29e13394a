//! Tests that go through all the stages.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod arguments;
mod durations;
mod expansion_doc;

//! What goes through all the stages.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod arguments;
mod expansion_doc;
mod generated;
mod guard;
mod key_macro;
mod key_part;
mod reservation;
mod rule_static;
mod support;

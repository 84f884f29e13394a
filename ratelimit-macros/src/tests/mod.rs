//! What goes through all the stages.
#![allow(clippy::unwrap_used, reason = "tests")]

mod expansion_doc;
mod guard;
mod key_macro;
mod key_part;
mod reservation;
mod rule_static;
mod support;

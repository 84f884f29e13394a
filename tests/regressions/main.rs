//! What this library once got wrong, and does no more.

#[path = "../support/mod.rs"]
mod support;

mod attribute;
mod connection;

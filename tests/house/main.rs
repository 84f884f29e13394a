//! The plan of the house, held: no module of either crate is in an import cycle, a room uses only
//! rooms above it, and what has to be in two places is the same in both.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod algorithms;
mod comments;
mod durations;
mod graph;
mod links;
mod manifests;
mod readme;
mod recipes;
mod rooms;
mod sources;
mod words;

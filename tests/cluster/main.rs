//! Redis Cluster: what the store makes of slots, redirects and nodes.

#[path = "../support/mod.rs"]
mod support;

mod conformance;
mod servers;

//! What the engine promises of every check, whatever the store does: one timeout, one queue per
//! refusing key, an answer for every outage, and nothing that a rule says dropped in silence.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::unused_async, reason = "the attribute awaits")]

mod actual_cost;
mod capabilities;
mod config;
mod durations;
mod endless;
mod fuzz;
mod in_flight;
mod keys;
mod observed;
mod opposed;
mod outages;
mod prefetch;
mod room;
mod settlement;
mod shaky;
mod size;
mod stacks;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod text;
mod timeouts;
mod turns;
mod waiting;

use std::future::pending;

use ratelimit_runtime::__private::{BuiltInStore, PermitRequest, PermitVerdict, Sealed};
use ratelimit_runtime::store::{Answer, Capabilities, Request, Verdict};
use ratelimit_runtime::{RateLimitError, Store};

type Outcome = Result<(), RateLimitError>;

/// A store that is up, and never answers, like a healthy server in a flood.
struct Flooded;

impl Store for Flooded {
    fn acquire<'a>(&'a self, _: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(pending())
    }

    fn peek<'a>(&'a self, _: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(pending())
    }

    fn reset<'a>(&'a self, _: Request<'a>) -> Answer<'a, bool> {
        Answer::later(pending())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl BuiltInStore for Flooded {
    fn acquire_all<'a>(
        &'a self,
        _: Option<PermitRequest>,
        _: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        Answer::later(pending())
    }
}

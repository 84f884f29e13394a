//! The sources of `ratelimit-macros` as a library: a crate of macros can export nothing else.
#![allow(dead_code, reason = "what only the macros call")]

#[path = "../../ratelimit-macros/src/async_blocks.rs"]
mod async_blocks;
#[path = "../../ratelimit-macros/src/check/mod.rs"]
mod check;
#[path = "../../ratelimit-macros/src/diagnostics.rs"]
mod diagnostics;
#[path = "../../ratelimit-macros/src/duration.rs"]
mod duration;
#[path = "../../ratelimit-macros/src/expand/mod.rs"]
mod expand;
#[path = "../../ratelimit-macros/src/fuzzing.rs"]
pub mod fuzzing;
#[path = "../../ratelimit-macros/src/literal.rs"]
mod literal;
#[path = "../../ratelimit-macros/src/literal_text.rs"]
mod literal_text;
#[path = "../../ratelimit-macros/src/parse/mod.rs"]
mod parse;
#[path = "../../ratelimit-macros/src/plan/mod.rs"]
mod plan;
#[path = "../../ratelimit-macros/src/runtime_path.rs"]
mod runtime_path;
#[path = "../../ratelimit-macros/src/stages.rs"]
mod stages;
#[path = "../../ratelimit-macros/src/suggest.rs"]
mod suggest;

//! The values of arguments by their kinds: numbers, durations, keywords, names, conditions, and
//! expressions at large.

pub(crate) mod condition;
pub(crate) mod constant;
pub(crate) mod control_flow;
pub(crate) mod duration;
pub(crate) mod exits;
pub(crate) mod keywords;
pub(crate) mod label;
pub(crate) mod number;

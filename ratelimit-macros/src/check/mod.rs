//! Stage two: what was written, judged against the function. Whatever can be wrong is found here, all of it.

pub(crate) mod algorithm;
pub(crate) mod async_block;
pub(crate) mod async_trait;
pub(crate) mod body;
pub(crate) mod burst;
pub(crate) mod checked;
pub(crate) mod conflicts;
pub(crate) mod control_flow;
pub(crate) mod cost;
pub(crate) mod count;
pub(crate) mod duration;
pub(crate) mod key;
pub(crate) mod key_macro;
pub(crate) mod keywords;
pub(crate) mod label;
pub(crate) mod limit_list;
pub(crate) mod limits;
pub(crate) mod number;
pub(crate) mod on_unavailable;
pub(crate) mod output;
pub(crate) mod refusal;
pub(crate) mod rule;
pub(crate) mod scope;
pub(crate) mod shadow;
pub(crate) mod stack;
pub(crate) mod value;

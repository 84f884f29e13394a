//! Stage two: what was written, judged against the function. Whatever can be wrong is found here,
//! all of it.

pub(crate) mod checked;
pub(crate) mod function;
pub(crate) mod key;
pub(crate) mod refusal;
pub(crate) mod rule;
pub(crate) mod stack;
pub(crate) mod values;

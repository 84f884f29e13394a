//! Stage two: the arguments, checked against the function. Every mistake is found here, all of them
//! at once.

pub(crate) mod checked;
pub(crate) mod function;
pub(crate) mod key;
pub(crate) mod refusal;
pub(crate) mod rule;
pub(crate) mod stack;
pub(crate) mod values;

//! What the scripts are asked and answer, as bytes, and the scripts themselves, which stand beside
//! this file.

pub(super) mod group;
pub(super) mod layout;
pub(super) mod number;
pub(super) mod operation;
pub(super) mod place;
pub(super) mod protocol;
pub(crate) mod script;
pub(super) mod script_call;

//! The function under the attribute: its shape, what it returns, and the names that its arguments
//! bind.

pub(crate) mod async_block;
pub(crate) mod async_trait;
pub(crate) mod body;
pub(crate) mod names;
pub(crate) mod output;
pub(crate) mod scope;

//! One open connection, and what keeps it.
//!
//! A call never connects. Each runtime has a [`supervisor`] per server, a task that connects and
//! connects again; calls read the state that it publishes in the [`node`]. From there a question
//! goes through the [`queue`] into the [`exchange`], which is one open connection. Transactions
//! take connections of their own from the [`pool`].

pub(super) mod attempt;
pub(super) mod endpoint;
pub(super) mod exchange;
pub(super) mod node;
pub(super) mod pool;
pub(super) mod pulse;
pub(super) mod queue;
pub(super) mod resolve;
mod supervisor;

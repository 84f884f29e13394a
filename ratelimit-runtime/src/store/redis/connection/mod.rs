//! One open connection, and what keeps it.
//!
//! A charge never connects. Each runtime has a [`supervisor`] per server, a task that connects and
//! connects again; calls read the status that it publishes in the [`node`]. From there a call goes
//! into the [`queue`] of the [`exchange`], which is one open connection. Transactions take
//! connections of their own from the [`pool`], which opens them when they are first needed.

mod abort_on_drop;
pub(super) mod attempt;
pub(super) mod exchange;
pub(super) mod node;
pub(super) mod nodes;
pub(super) mod pool;
pub(super) mod pulse;
pub(super) mod queue;
pub(super) mod resolve;
mod supervisor;

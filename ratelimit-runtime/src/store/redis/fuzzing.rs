//! Replies, from the bytes that a server sends to what is made of them.

pub use super::batching::fuzzing::records;
pub use super::topology::fuzzing::topology;
pub use super::transactions::fuzzing::command_replies;
pub use super::wire::resp::fuzzing::{read_resp, resp};

//! Replies, from the bytes that a server sends to what is made of them.

pub use super::commands::fuzzing::command_replies;
pub use super::connection::fuzzing::{read_resp, records, resp, topology};

//! What is measured, each with the tables that it becomes.

pub mod bytes;
pub mod callers;
pub mod growth;
pub mod in_process;
mod log;
pub mod open_loop;
pub mod prefetch;
pub mod server_time;
pub mod service;
pub mod throughput;

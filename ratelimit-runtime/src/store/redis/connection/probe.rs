//! Whether a server that is connected serves.

use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::login::serves as said_by;
use super::node::{Node, Report};
use super::question::{Expected, Question};
use crate::error::StoreError;
use crate::real_time;

/// How long it takes a server that is known to serve to say so.
const PROBE: Duration = Duration::from_secs(1);

pub(super) async fn serves(node: &Node) -> Result<(), StoreError> {
    said_by(&ask(node, &redis::cmd("PING")).await?)
}

/// Asks, and tells the supervisor if no answer comes.
pub(super) async fn ask(node: &Node, command: &Cmd) -> Result<Value, StoreError> {
    let question = || Question {
        packed: command.get_packed_command(),
        replies: 1,
        expected: Expected::Anything,
        timeout_at: None,
    };
    let answer = real_time::timeout_at(Instant::now() + PROBE, node.ask(question)).await;
    answer.unwrap_or_else(|_| {
        node.report(Report::Overdue(PROBE));
        Err(StoreError::unavailable("Redis does not answer"))
    })
}

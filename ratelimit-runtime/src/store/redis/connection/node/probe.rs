//! Whether a server that is connected serves.

use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::{Node, Report};
use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::wire::login::serves as said_by;
use crate::store::redis::wire::question::Question;

/// How long it takes a server that is known to serve to say so.
const PROBE: Duration = Duration::from_secs(1);

pub(crate) async fn serves(node: &Node) -> Result<(), StoreError> {
    said_by(&said(node, Question::marker).await?)
}

/// Asks for something in words, and tells the supervisor if no answer comes.
pub(crate) async fn ask(node: &Node, command: &Cmd) -> Result<Value, StoreError> {
    let is_text = |reply: &Value| matches!(reply, Value::BulkString(_) | Value::VerbatimString { .. });
    said(node, || Question::command(command, is_text)).await
}

async fn said(node: &Node, question: impl Fn() -> Question) -> Result<Value, StoreError> {
    let answer = real_time::timeout_at(Instant::now() + PROBE, node.ask(question)).await;
    answer.unwrap_or_else(|_| {
        node.report(Report::Overdue(PROBE));
        Err(StoreError::unavailable("Redis does not answer"))
    })
}

//! Whether a server that is connected serves.

use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::{Node, Report};
use crate::error::StoreError;
use crate::real_time;
use crate::store::redis::wire::commands::Commands;
use crate::store::redis::wire::login;

/// How long a server that is known to serve may take to answer.
const PROBE: Duration = Duration::from_secs(1);

/// Whether the server says that it serves.
pub(crate) async fn serves(node: &Node) -> Result<(), StoreError> {
    login::serves(&send(node, Commands::marker).await?)
}

/// Sends a command whose reply is text. Reports to the supervisor if none comes.
pub(crate) async fn ask(node: &Node, command: &Cmd) -> Result<Value, StoreError> {
    let is_text = |reply: &Value| matches!(reply, Value::BulkString(_) | Value::VerbatimString { .. });
    send(node, || Commands::one(command, is_text)).await
}

async fn send(node: &Node, commands: impl Fn() -> Commands) -> Result<Value, StoreError> {
    let answer = real_time::timeout_at(Instant::now() + PROBE, node.send(commands)).await;
    answer.unwrap_or_else(|_| {
        node.report(Report::Overdue(PROBE));
        Err(StoreError::unavailable("Redis does not answer"))
    })
}

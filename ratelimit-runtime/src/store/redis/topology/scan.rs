//! [`Scan`]: the keys of one server, a part of them at a time, over one connection. The cursor of `SCAN` is worth nothing on
//! another server, nor on the same one after a restart, so a scan ends with its connection.

use std::sync::Arc;
use std::time::Instant;

use redis::{Value, cmd};

use crate::error::StoreError;
use crate::store::redis::connection::node::{Connected, Node};
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::wire::commands::Commands;

/// How many keys the server looks at for one commands, about: others wait for a fraction of a millisecond.
const LOOKED_AT: u32 = 250;

/// Which keys are looked for, and until when.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    /// A glob pattern.
    pub(crate) pattern: &'a [u8],
    pub(crate) timeout_at: Option<Instant>,
}

#[derive(Clone)]
pub(crate) struct Scan {
    node: Arc<Node>,
    connected: Connected,
    cursor: u64,
}

impl Scan {
    pub(crate) async fn begin(node: Arc<Node>) -> Result<Self, StoreError> {
        let connected = node.connected().await?;
        Ok(Self { node, connected, cursor: 0 })
    }

    /// Whether it can go on.
    pub(crate) fn is_open(&self) -> bool {
        self.connected.exchange.is_open()
    }

    /// The keys of the next part, and the scan for what follows; none at the end.
    pub(crate) async fn next(mut self, search: Search<'_>) -> Result<(Vec<Vec<u8>>, Option<Self>), StoreError> {
        let mut command = cmd("SCAN");
        command.arg(self.cursor).arg("MATCH").arg(search.pattern).arg("COUNT").arg(LOOKED_AT);
        let commands = Commands::one(&command, |reply| cursor(reply).is_some()).until(search.timeout_at);
        let Some(reply) = self.node.send_over(&self.connected, commands).await? else {
            return Err(StoreError::unavailable(
                "the connection to Redis was lost while keys were listed: go on, or list again",
            ));
        };
        if let Value::ServerError(error) = &reply {
            return Err(errors::from_server(error));
        }
        self.cursor = cursor(&reply).ok_or_else(unexpected_reply)?;
        Ok((keys(reply), (self.cursor != 0).then_some(self)))
    }
}

/// Where the server says that it goes on.
fn cursor(reply: &Value) -> Option<u64> {
    let Value::Array(parts) = reply else { return None };
    let [Value::BulkString(cursor), Value::Array(_)] = parts.as_slice() else { return None };
    std::str::from_utf8(cursor).ok()?.parse().ok()
}

fn keys(reply: Value) -> Vec<Vec<u8>> {
    let Value::Array(parts) = reply else { return Vec::new() };
    let Some(Value::Array(keys)) = parts.into_iter().nth(1) else { return Vec::new() };
    let bytes = |key| if let Value::BulkString(key) = key { Some(key) } else { None };
    keys.into_iter().filter_map(bytes).collect()
}

//! [`Scan`]: the keys of one server, a part of them at a time.
//!
//! The cursor of `SCAN` belongs to the process of a server, and not to a connection: another
//! connection to the same process continues with it, and each key that is there all the time is
//! given. After a restart, and on a replica that has taken over, the order of keys is another one;
//! so a [`ScanPosition`] names the process, and a list begins again where that is another.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Instant;

use redis::{Value, cmd};

use crate::error::StoreError;
use crate::store::redis::connection::node::{Connected, Node, ProcessId};
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::wire::commands::Commands;

/// How many keys the server looks at for one page, about: other clients wait for a fraction of a
/// millisecond.
const KEYS_PER_PAGE: u32 = 250;

/// Which keys are looked for, and until when.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    /// A glob pattern.
    pub(crate) pattern: &'a [u8],
    pub(crate) timeout_at: Option<Instant>,
}

/// How far a scan has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanPosition {
    pub(super) process: ProcessId,
    /// That of `SCAN`; 0 at the end.
    pub(super) cursor: u64,
}

impl ScanPosition {
    pub(super) fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.process);
        bytes.extend_from_slice(&self.cursor.to_le_bytes());
    }

    /// Takes a position off the front of these bytes.
    pub(super) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (process, rest) = bytes.split_first_chunk()?;
        let (cursor, rest) = rest.split_first_chunk()?;
        *bytes = rest;
        Some(Self { process: *process, cursor: u64::from_le_bytes(*cursor) })
    }
}

/// A scan of the server that a connection leads to.
pub(crate) struct Scan {
    node: Arc<Node>,
    connected: Connected,
    process: ProcessId,
}

impl Scan {
    pub(crate) async fn new(node: Arc<Node>, search: Search<'_>) -> Result<Self, StoreError> {
        let connected = node.connected().await?;
        let process = if let Some(process) = connected.process.get() {
            *process
        } else {
            let process = process_id(&node, &connected, search.timeout_at).await?;
            *connected.process.get_or_init(|| process)
        };
        Ok(Self { node, connected, process })
    }

    /// Whether a position is one of this server.
    pub(crate) fn can_continue(&self, position: ScanPosition) -> bool {
        self.process == position.process
    }

    /// The keys of the next part, and how far that is. Begins with the first part unless it can
    /// continue.
    pub(crate) async fn next(
        &self,
        search: Search<'_>,
        from: Option<ScanPosition>,
    ) -> Result<(Vec<Vec<u8>>, ScanPosition), StoreError> {
        let from = from.filter(|from| self.can_continue(*from)).map_or(0, |from| from.cursor);
        let mut command = cmd("SCAN");
        command.arg(from).arg("MATCH").arg(search.pattern).arg("COUNT").arg(KEYS_PER_PAGE);
        let commands = Commands::one(&command, |reply| cursor(reply).is_some()).until(search.timeout_at);
        let reply = self.node.send_over(&self.connected, commands).await?.ok_or_else(lost)?;
        if let Value::ServerError(error) = &reply {
            return Err(errors::from_server(error));
        }
        let cursor = cursor(&reply).ok_or_else(unexpected_reply)?;
        Ok((keys(reply), ScanPosition { process: self.process, cursor }))
    }
}

/// The identity of the server's process, which is another one after each start. If the user may not
/// ask for it, one that only this connection has.
async fn process_id(node: &Node, connected: &Connected, timeout_at: Option<Instant>) -> Result<ProcessId, StoreError> {
    let is_text = |reply: &Value| matches!(reply, Value::BulkString(_) | Value::VerbatimString { .. });
    let info = Commands::one(cmd("INFO").arg("server"), is_text).until(timeout_at);
    let reply = node.send_over(connected, info).await?.ok_or_else(lost)?;
    let run_id = match &reply {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().and_then(run_id),
        Value::VerbatimString { text, .. } => run_id(text),
        _ => None,
    };
    Ok(run_id.unwrap_or_else(|| {
        let mut random = ProcessId::default();
        for (index, chunk) in random.chunks_mut(8).enumerate() {
            let bytes = RandomState::new().hash_one(index).to_le_bytes();
            chunk.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        }
        random
    }))
}

/// The `run_id` in a reply to `INFO server`: 40 hexadecimal digits.
fn run_id(info: &str) -> Option<ProcessId> {
    let digits = info.lines().find_map(|field| field.strip_prefix("run_id:"))?.trim();
    let mut id = ProcessId::default();
    if digits.len() != 2 * id.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(id)
}

fn lost() -> StoreError {
    StoreError::unavailable("the connection to Redis was lost while keys were listed: go on, or list again")
}

/// The cursor in a reply to `SCAN`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_run_id() {
        let info = |id: &str| format!("# Server\r\nredis_version:7.0.15\r\nrun_id:{id}\r\ntcp_port:1\r\n");
        let mut expected = [0xab; 20];
        expected[19] = 1;
        assert_eq!(run_id(&info(&format!("{}01", "ab".repeat(19)))), Some(expected));
        for nonsense in ["", "ab", &"ab".repeat(21), &"xy".repeat(20), &"+1".repeat(20), &"é".repeat(20)] {
            assert_eq!(run_id(&info(nonsense)), None, "{nonsense}");
        }
    }
}

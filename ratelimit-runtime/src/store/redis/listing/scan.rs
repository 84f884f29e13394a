//! [`Search`]: the keys of one server, by `SCAN`.
//!
//! The cursor of `SCAN` belongs to the process of a server, and not to a connection: another
//! connection to the same process continues with it, and each key that is there all the time is
//! given. After a restart, and on a replica that has taken over, the order of keys is another one;
//! so a position names the process.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use redis::{Cmd, Value, cmd};

use super::position::{ProcessId, ServerPosition};
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::link::{Connection, Link};

/// How many keys the server looks at for one page, about: other clients wait for a fraction of a
/// millisecond.
const KEYS_PER_PAGE: u32 = 250;

/// Some keys, and where the next ones begin.
pub(super) type Part = (Vec<Vec<u8>>, ServerPosition);

/// A search for the keys that begin with a prefix.
#[derive(Debug)]
pub(super) struct Search<'a> {
    processes: &'a Processes,
    prefix: &'a [u8],
    pub(super) until: Option<Instant>,
}

impl<'a> Search<'a> {
    pub(super) fn new(processes: &'a Processes, prefix: &'a [u8], until: Option<Instant>) -> Self {
        Self { processes, prefix, until }
    }

    /// The first part of a server's keys.
    pub(super) async fn first(&self, link: &Link) -> Result<Part, StoreError> {
        self.next(link, None).await?.ok_or_else(unexpected_reply)
    }

    /// The part at a position, or the first one; `None` if the position is one of another process.
    pub(super) async fn next(&self, link: &Link, from: Option<ServerPosition>) -> Result<Option<Part>, StoreError> {
        let connection = &self.in_time(link.connected()).await?;
        let process = if let Some(process) = self.processes.known(connection) {
            process
        } else {
            let info = self.reply(link, connection, cmd("INFO").arg("server")).await?;
            self.processes.note(connection, run_id(&info))
        };
        if from.is_some_and(|from| from.process != process) {
            return Ok(None);
        }
        let mut command = cmd("SCAN");
        command.arg(from.map_or(0, |from| from.cursor)).arg("MATCH").arg(beginning_with(self.prefix));
        let reply = self.reply(link, connection, command.arg("COUNT").arg(KEYS_PER_PAGE)).await?;
        if let Value::ServerError(error) = &reply {
            return Err(errors::from_server(error));
        }
        let (cursor, mut keys) = scanned(reply).ok_or_else(unexpected_reply)?;
        keys.retain(|key| key.starts_with(self.prefix));
        Ok(Some((keys, ServerPosition { process, cursor })))
    }

    async fn reply(&self, link: &Link, connection: &Connection, command: &Cmd) -> Result<Value, StoreError> {
        let sent = Instant::now();
        let reply = async { connection.send(command).await.map_err(|_| lost()) };
        self.in_time(reply).await.inspect_err(|error| {
            if error.kind() == StoreErrorKind::TimedOut {
                link.late(connection, sent);
            }
        })
    }

    /// The outcome of `work`, if there is one in time.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = || StoreError::timed_out("the keys were not listed in time");
        match self.until {
            None => work.await,
            Some(until) => real_time::timeout_at(until, work).await.unwrap_or_else(|_| Err(late())),
        }
    }
}

/// Which process each connection leads to. It never leads to another one.
#[derive(Debug, Default)]
pub(super) struct Processes {
    of: Mutex<Vec<(Weak<Connection>, ProcessId)>>,
}

impl Processes {
    fn known(&self, connection: &Arc<Connection>) -> Option<ProcessId> {
        let of = self.of();
        of.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(connection)).map(|(_, process)| *process)
    }

    /// Notes where a connection leads, and gives that: an id that only this connection has if the
    /// user may not ask for the process.
    fn note(&self, connection: &Arc<Connection>, process: Option<ProcessId>) -> ProcessId {
        let process = process.unwrap_or_else(random_id);
        let mut of = self.of();
        of.retain(|(known, _)| known.strong_count() > 0);
        of.push((Arc::downgrade(connection), process));
        process
    }

    fn of(&self) -> MutexGuard<'_, Vec<(Weak<Connection>, ProcessId)>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn random_id() -> ProcessId {
    let mut random = ProcessId::default();
    for (index, chunk) in random.chunks_mut(8).enumerate() {
        let bytes = RandomState::new().hash_one(index).to_le_bytes();
        chunk.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }
    random
}

/// The `run_id` in a reply to `INFO server`, which is another one after each start: 40 hexadecimal
/// digits.
fn run_id(info: &Value) -> Option<ProcessId> {
    let info = match info {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
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

/// The cursor and the keys in a reply to `SCAN`.
fn scanned(reply: Value) -> Option<(u64, Vec<Vec<u8>>)> {
    let Value::Array(parts) = reply else { return None };
    let Ok([Value::BulkString(cursor), Value::Array(keys)]) = <[Value; 2]>::try_from(parts) else { return None };
    let bytes = |key| if let Value::BulkString(key) = key { Some(key) } else { None };
    Some((std::str::from_utf8(&cursor).ok()?.parse().ok()?, keys.into_iter().filter_map(bytes).collect()))
}

/// The glob pattern of all that begins with these bytes.
fn beginning_with(bytes: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(bytes.len() + 8);
    for byte in bytes {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\') {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

fn lost() -> StoreError {
    StoreError::unavailable("the connection to Redis was lost while keys were listed: go on, or list again")
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    #[test]
    fn a_process_is_known_by_its_run_id() {
        let info = |id: &str| Value::BulkString(format!("# Server\r\nrun_id:{id}\r\ntcp_port:1\r\n").into());
        let mut expected = [0xab; 20];
        expected[19] = 1;
        assert_eq!(run_id(&info(&format!("{}01", "ab".repeat(19)))), Some(expected));
        for nonsense in ["", "ab", &"ab".repeat(21), &"xy".repeat(20), &"+1".repeat(20), &"é".repeat(20)] {
            assert_eq!(run_id(&info(nonsense)), None, "{nonsense}");
        }
        assert_ne!(random_id(), random_id());
    }

    #[test]
    fn replies_and_patterns() {
        let said = |reply: &str| scanned(parse_redis_value(reply.as_bytes()).ok()?);
        assert_eq!(said("*2\r\n$2\r\n17\r\n*1\r\n$1\r\na\r\n"), Some((17, vec![b"a".to_vec()])));
        for nonsense in ["+OK\r\n", "*1\r\n$1\r\n0\r\n", "*2\r\n$1\r\nx\r\n*0\r\n", "*2\r\n:0\r\n*0\r\n"] {
            assert_eq!(said(nonsense), None, "{nonsense}");
        }
        assert_eq!(beginning_with(b"rl1:a*[b]?\\:"), b"rl1:a\\*\\[b\\]\\?\\\\:*");
    }
}

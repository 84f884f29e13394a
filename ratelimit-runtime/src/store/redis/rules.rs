//! [`RuleBook`]: the rules of a store's limiters, and the task that writes them to the server,
//! where operators' tools read them. No caller waits for the writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use redis::{Value, cmd};
use tokio::sync::Notify;

use super::errors::unexpected_reply;
use super::servers::Servers;
use crate::error::{StoreError, StoreErrorKind};
use crate::rule::{FORMAT, RuleSummary};

/// The time in which new rules are gathered to share a command.
const GATHER: Duration = Duration::from_secs(1);
/// The time after which the task checks whether another day has begun, or a server serves again.
const LOOK: Duration = Duration::from_secs(60);
/// The most rules that a command writes: the server is busy for some microseconds.
const AT_ONCE: usize = 64;
const SECONDS_OF_A_DAY: u64 = 86_400;
/// The life of the hash after a write, in seconds; readers leave out older rules in it.
const LIFE: u64 = 35 * SECONDS_OF_A_DAY;

/// A hash with more fields is begun anew: names made at run time must not fill the server.
const MOST: i64 = 10_000;

/// The hash of the rules under a prefix, which ends in its colon or is empty.
fn hash_of(prefix: &str) -> String {
    format!("{prefix}{FORMAT}:rules")
}

/// The rules to write, by hash and field.
#[derive(Default)]
pub(super) struct RuleBook {
    rules: Mutex<BTreeMap<(String, String), NotedRule>>,
    changed: Notify,
}

#[derive(Default)]
struct NotedRule {
    /// The line without the day of writing.
    line: String,
    /// The time at which the rule was last written.
    written: Option<When>,
}

/// The day, in days since 1970, and the number of reconnections: after a reconnection, the server
/// may have lost the rule.
type When = (u64, u64);

/// The fields to write, with their lines.
type Due = Vec<(String, String)>;

impl RuleBook {
    fn rules(&self) -> MutexGuard<'_, BTreeMap<(String, String), NotedRule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a rule of a limiter with this prefix, to be written soon if it has changed.
    pub(super) fn note(&self, prefix: &str, rule: &RuleSummary) {
        let (at, line) = ((hash_of(prefix), rule.field()), rule.open_line());
        let mut rules = self.rules();
        let noted = rules.entry(at).or_default();
        if noted.line != line {
            *noted = NotedRule {
                line,
                written: None,
            };
            self.changed.notify_one();
        }
    }

    /// Takes rules of one hash that were not written since then, and counts them as written.
    fn take_due(&self, now: When) -> Option<(String, Due)> {
        let mut rules = self.rules();
        let mut due = rules
            .iter_mut()
            .filter(|(_, noted)| noted.written < Some(now))
            .peekable();
        let ((hash, _), _) = due.peek()?;
        let hash = hash.clone();
        let of_hash = due.take_while(|((other, _), _)| *other == hash);
        let lines = of_hash.take(AT_ONCE).map(|((_, field), noted)| {
            noted.written = Some(now);
            (field.clone(), noted.line.clone())
        });
        let lines = lines.collect();
        Some((hash, lines))
    }

    /// Makes all rules due again, because some may not have been written.
    fn forget_written(&self) {
        let mut rules = self.rules();
        rules.values_mut().for_each(|noted| noted.written = None);
    }
}

/// The task of a client that writes the rules of its store.
pub(super) async fn run(book: Arc<RuleBook>, servers: Arc<Servers>) {
    let mut refused_on = None;
    loop {
        // By tokio's clock: an idle connection does not hold up one that a test has paused.
        let _ = tokio::time::timeout(LOOK, book.changed.notified()).await;
        tokio::time::sleep(GATHER).await;
        let now = (today(), servers.epochs.all());
        while refused_on != Some(servers.epochs.all())
            && let Some((hash, lines)) = book.take_due(now)
        {
            if let Err(error) = write(&servers, &hash, &lines, now.0).await {
                book.forget_written();
                // An ACL may forbid it. The next connection may have another login.
                let is_refused = error.kind() == StoreErrorKind::Misconfigured;
                refused_on = is_refused.then(|| servers.epochs.all());
                break;
            }
        }
    }
}

/// The days since 1970. A wrong clock only makes the day that operators see wrong.
fn today() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| since.as_secs() / SECONDS_OF_A_DAY)
}

async fn write(servers: &Servers, hash: &str, lines: &Due, day: u64) -> Result<(), StoreError> {
    let mut set = cmd("HSET");
    set.arg(hash);
    for (field, line) in lines {
        set.arg(field).arg(format!("{line},\"day\":{day}}}"));
    }
    let mut expire = cmd("EXPIRE");
    expire.arg(hash).arg(LIFE);
    let [count, forget] = ["HLEN", "UNLINK"].map(|name| [cmd(name).arg(hash).take()]);
    let key = hash.as_bytes();
    if matches!(servers.send(key, &count).await?, Value::Int(fields) if fields > MOST) {
        servers.send(key, &forget).await?;
    }
    // A process that dies between the two would leave a hash that never expires.
    let transaction = [cmd("MULTI"), set, expire, cmd("EXEC")];
    servers.send(key, &transaction).await.map(drop)
}

/// The fields and lines that the server keeps under a prefix, from all writers.
pub(super) async fn read(
    servers: &Servers,
    prefix: &str,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
    let hash = hash_of(prefix);
    let get = [cmd("HGETALL").arg(&hash).take()];
    let reply: Value = servers.send(hash.as_bytes(), &get).await?;
    redis::from_redis_value(reply).map_err(|_| unexpected_reply())
}

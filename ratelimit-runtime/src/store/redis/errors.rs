//! Errors of Redis and its client as [`StoreError`]s. This one table decides which failures
//! `on_unavailable` may answer.
//!
//! No message has a key in it: Redis quotes the arguments of commands it does not know, so these
//! quotes are cut off.

use std::error::Error;
use std::io;

use redis::{ServerError, Value};

use crate::error::{StoreError, StoreErrorKind};

use StoreErrorKind::{Full, Misconfigured, Unavailable};

/// The message for a key with a value that this store cannot read.
const FOREIGN: &str = "a key of the rate limiter holds something that another program has written: \
    set a prefix of its own";

/// The message for a login that the server refuses.
const WRONG_LOGIN: &str = "Redis does not accept the user name or the password";

/// The message for a server or proxy without a command.
const LACKING: &str = "Redis lacks a command that the rate limiter needs: without scripts, choose \
    RedisMode::Transactions, without TIME in them, RedisStore::with_clock";

/// The message for a node of a cluster that is named as a single server.
pub(super) const CLUSTER: &str = "Redis runs as a cluster: write redis+cluster:// for all of it";

/// Error codes, with the error that a store returns.
const CODES: &[(&str, StoreErrorKind, &str)] = &[
    ("OOM", Full, "Redis is out of memory: raise `maxmemory`"),
    (
        "NOAUTH",
        Misconfigured,
        "Redis asks for a password: write redis://:password@host, or redis://user:password@host",
    ),
    ("WRONGPASS", Misconfigured, WRONG_LOGIN),
    (
        "DENIED",
        Misconfigured,
        "Redis is in protected mode: set a password, or let it bind to an address",
    ),
    (
        "NOPERM",
        Misconfigured,
        "the ACL of the Redis user forbids this: it needs the commands that `RedisStore` lists, \
         and a pattern that its keys match",
    ),
    ("WRONGTYPE", Misconfigured, FOREIGN),
    (
        "CLOCK",
        Misconfigured,
        "the clocks of this process and of Redis are a calendar period apart: set them",
    ),
    ("CROSSSLOT", Misconfigured, CLUSTER),
    ("MOVED", Misconfigured, CLUSTER),
    ("ASK", Misconfigured, CLUSTER),
    ("READONLY", Unavailable, "Redis is a read-only replica"),
    ("LOADING", Unavailable, "Redis is loading its data"),
    ("BUSY", Unavailable, "Redis is busy running a script"),
    (
        "MISCONF",
        Full,
        "Redis refuses writes because it cannot save to disk: see its log",
    ),
    (
        "MASTERDOWN",
        Unavailable,
        "the Redis replica has lost its master",
    ),
    ("CLUSTERDOWN", Unavailable, "the Redis cluster is down"),
    (
        "NOREPLICAS",
        Full,
        "Redis refuses writes because too few replicas are connected",
    ),
    (
        "TRYAGAIN",
        Unavailable,
        "the Redis cluster is moving this key",
    ),
];

/// Texts in a plain `ERR`, with the error; the first match counts.
const TEXTS: &[(&str, StoreErrorKind, &str)] = &[
    (
        "max number of clients",
        Unavailable,
        "Redis has no room for another client: raise `maxclients`",
    ),
    (
        "Script killed by user",
        Unavailable,
        "the script was killed on the Redis server",
    ),
    (
        "ACL failure",
        Misconfigured,
        "the ACL of the Redis user forbids a command of the rate limiter's script",
    ),
    (
        "executing the script can't",
        Misconfigured,
        "the ACL of the Redis user forbids a command of the script",
    ),
    // Quoted in another way before Redis 7.0.
    (
        "SENTINEL",
        Misconfigured,
        "this Redis is no sentinel: name sentinels, usually at port 26379, or write redis://",
    ),
    // A password where none is set.
    ("AUTH", Misconfigured, WRONG_LOGIN),
    (
        "CL.THROTTLE",
        Misconfigured,
        "the Redis server has not loaded redis-cell: load it, or choose RedisMode::Scripts",
    ),
    ("unknown command", Misconfigured, LACKING),
    ("Unknown Redis command", Misconfigured, LACKING),
    (
        "DB index",
        Misconfigured,
        "Redis does not have the database that the URL names",
    ),
];

/// The code of the error. Up to Redis 6.2, an error inside a script arrives as `ERR` with the real
/// code somewhere in its text.
pub(super) fn code(error: &ServerError) -> &str {
    let text = text(error);
    if error.code() == "ERR" {
        let words = text.split(|c: char| !c.is_ascii_uppercase());
        let known = |word: &&str| CODES.iter().any(|(code, ..)| code == word);
        words.into_iter().find(known).unwrap_or("ERR")
    } else {
        error.code()
    }
}

/// The server's message, without the arguments it may quote.
fn text(error: &ServerError) -> &str {
    let text = error.details().unwrap_or_default();
    text.split_once(", with args")
        .map_or(text, |(text, _)| text)
}

/// Converts an error that the server replied.
pub(super) fn from_server(error: &ServerError) -> StoreError {
    let (code, text) = (code(error), text(error));
    let text = text.strip_prefix(code).unwrap_or(text).trim_start();
    let row = CODES
        .iter()
        .find(|row| row.0 == code)
        .or_else(|| TEXTS.iter().find(|row| text.contains(row.0)));
    match (row, code) {
        // Without the text, which names the script that met it: the log has a line an error.
        (Some((_, Full, meaning)), _) => StoreError::new(Full, format!("{meaning} ({code})")),
        (Some((_, kind, meaning)), _) => {
            StoreError::new(*kind, format!("{meaning} ({code} {text})"))
        }
        // The script does not run on this server.
        (None, "ERR") => {
            StoreError::misconfigured(format!("Redis rejected the rate limiter's command: {text}"))
        }
        // An error that is not known to pass must not switch limits off.
        (None, _) => StoreError::misconfigured(format!("Redis answered {code} {text}")),
    }
}

/// The first error among the replies, including those inside an EXEC.
pub(super) fn first(replies: &[Value]) -> Option<&ServerError> {
    replies.iter().find_map(|reply| match reply {
        Value::ServerError(error) => Some(error),
        Value::Array(replies) => first(replies),
        _ => None,
    })
}

/// `true` if a replica was asked to write.
pub(super) fn is_replica(error: &ServerError) -> bool {
    code(error) == "READONLY"
}

/// `true` if the server asks for a login: it has none of the connection, or has dropped it.
pub(super) fn is_logged_out(error: &ServerError) -> bool {
    code(error) == "NOAUTH"
}

/// `true` if the server is running, but cannot serve now.
pub(super) fn is_no_service(error: &ServerError) -> bool {
    matches!(code(error), "BUSY" | "LOADING" | "MISCONF")
}

/// `true` if the user's ACL refuses the command, or a server or proxy does not have it.
pub(super) fn is_forbidden(error: &ServerError) -> bool {
    let text = text(error);
    // An EXEC that is refused is answered EXECABORT.
    code(error) == "NOPERM" || text.contains("unknown command") || text.contains("no permissions")
}

/// `true` if the user may not send the command about any key.
pub(super) fn lacks_command(error: &ServerError) -> bool {
    is_forbidden(error) && text(error).contains("command")
}

/// `true` if the user's ACL forbids a script a command or a key; which, few servers say.
pub(super) fn is_forbidden_to_script(error: &ServerError) -> bool {
    let text = text(error);
    text.contains("executing the script can't") || text.contains("ACL failure")
}

/// The error of a server that takes no writes.
pub(super) fn replica() -> StoreError {
    StoreError::unavailable("Redis is a read-only replica")
}

/// The error of `ready` for one that it is not to wait out: a mistake, or an answer that is not
/// that of the Redis server which the URL names.
pub(super) fn in_vain(error: &StoreError) -> Option<StoreError> {
    let cause = error.source().and_then(<dyn Error>::downcast_ref);
    let is_strange = |cause: &io::Error| cause.kind() == io::ErrorKind::InvalidData;
    (error.kind() == Misconfigured || cause.is_some_and(is_strange))
        .then(|| StoreError::misconfigured(error.message().to_owned()))
}

/// The error for a reply that no command or script of this crate gives.
pub(super) fn unexpected_reply() -> StoreError {
    StoreError::unavailable("Redis gave a reply that is not a decision")
}

/// The error for a key that another program has written.
pub(super) fn foreign_key() -> StoreError {
    StoreError::misconfigured(FOREIGN)
}

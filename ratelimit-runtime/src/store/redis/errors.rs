//! What Redis and its client report, as [`StoreError`]s. The one table that decides which failures
//! the `on_unavailable` policy may answer.
//!
//! No message carries a key: Redis quotes the arguments of commands it does not know, so those
//! quotes are cut off.

use std::borrow::Cow;

use redis::{ServerError, Value};

use crate::error::{StoreError, StoreErrorKind};

use StoreErrorKind::{Full, Misconfigured, Unavailable};

/// What is said of a key that this store cannot read.
const FOREIGN: &str =
    "a key of the rate limiter holds something that another program has written: set a prefix of its own";

/// What is said of a login that the server refuses.
pub(super) const WRONG_LOGIN: &str = "Redis does not accept the user name or the password";

const NO_CELL: &str = "the Redis server has not loaded redis-cell: load it, or choose RedisMode::Scripts";

const NO_SENTINEL: &str =
    "this Redis is no sentinel: name sentinels, which listen on port 26379 unless told otherwise, or write redis://";

/// Error codes and what they mean here.
const CODES: &[(&str, StoreErrorKind, &str)] = &[
    ("OOM", Full, "Redis is out of memory: raise `maxmemory`"),
    (
        "NOAUTH",
        Misconfigured,
        "Redis asks for a password: write redis://:password@host, or redis://user:password@host for a user of its ACL",
    ),
    ("WRONGPASS", Misconfigured, WRONG_LOGIN),
    ("DENIED", Misconfigured, "Redis is in protected mode: set a password, or let it bind to an address"),
    (
        "NOPERM",
        Misconfigured,
        "the ACL of the Redis user forbids this: it needs the commands that `RedisStore` lists, and a pattern that its keys match",
    ),
    ("WRONGTYPE", Misconfigured, FOREIGN),
    (
        "CLOCK",
        Misconfigured,
        "the clocks of this process and of the Redis server differ by more than a period of a calendar quota: set them \
         right, as by NTP",
    ),
    ("CROSSSLOT", Misconfigured, "Redis runs as a cluster: write redis+cluster:// for all of it"),
    ("MOVED", Misconfigured, "Redis runs as a cluster: write redis+cluster:// for all of it"),
    ("ASK", Misconfigured, "Redis runs as a cluster: write redis+cluster:// for all of it"),
    ("READONLY", Unavailable, "Redis is a read-only replica"),
    ("LOADING", Unavailable, "Redis is loading its data"),
    ("BUSY", Unavailable, "Redis is busy running a script"),
    ("MISCONF", Unavailable, "Redis refuses writes because it cannot save to disk"),
    ("MASTERDOWN", Unavailable, "the Redis replica has lost its master"),
    ("CLUSTERDOWN", Unavailable, "the Redis cluster is down"),
    ("NOREPLICAS", Unavailable, "Redis refuses writes because too few replicas are connected"),
    ("TRYAGAIN", Unavailable, "the Redis cluster is moving this key"),
];

/// What the text of a plain `ERR` may contain, first match first.
const TEXTS: &[(&str, StoreErrorKind, &str)] = &[
    ("max number of clients", Unavailable, "Redis has no room for another client: raise `maxclients`"),
    ("Script killed by user", Unavailable, "the script was killed on the Redis server"),
    ("ACL failure", Misconfigured, "the ACL of the Redis user forbids a command of the rate limiter's script"),
    ("executing the script can't", Misconfigured, "the ACL of the Redis user forbids a command of the script"),
    ("unknown command 'SENTINEL", Misconfigured, NO_SENTINEL),
    // As Redis before 7.0 quotes it.
    ("unknown command `SENTINEL", Misconfigured, NO_SENTINEL),
    ("unknown command 'CL.THROTTLE", Misconfigured, NO_CELL),
    ("unknown command `CL.THROTTLE", Misconfigured, NO_CELL),
    ("unknown command", Misconfigured, "Redis lacks a command that the rate limiter needs: EVAL, EVALSHA, UNLINK"),
    ("DB index", Misconfigured, "Redis does not have the database that the URL names"),
];

/// The code that says what happened. Up to Redis 6.2, an error inside a script arrives as `ERR`
/// with the real code somewhere in its text.
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

/// What the server says, without the arguments it may quote.
fn text(error: &ServerError) -> &str {
    let text = error.details().unwrap_or_default();
    text.split_once(", with args").map_or(text, |(text, _)| text)
}

/// An error that the server replied.
pub(super) fn from_server(error: &ServerError) -> StoreError {
    let (code, text) = (code(error), text(error));
    let row = CODES.iter().find(|row| row.0 == code).or_else(|| TEXTS.iter().find(|row| text.contains(row.0)));
    match (row, code) {
        (Some((_, kind, meaning)), _) => StoreError::new(*kind, format!("{meaning} ({code} {text})")),
        // The script does not run on this server.
        (None, "ERR") => StoreError::misconfigured(format!("Redis rejected the rate limiter's command: {text}")),
        // What is not known to pass must not switch limits off.
        (None, _) => StoreError::misconfigured(format!("Redis answered {code} {text}")),
    }
}

/// The first error among the replies, those of an EXEC included.
pub(super) fn first(replies: &[Value]) -> Option<&ServerError> {
    replies.iter().find_map(|reply| match reply {
        Value::ServerError(error) => Some(error),
        Value::Array(replies) => first(replies),
        _ => None,
    })
}

/// Whether a replica was asked to write.
pub(super) fn is_replica(error: &ServerError) -> bool {
    code(error) == "READONLY"
}

/// Whether the server asks for a login, or has forgotten that of a connection.
pub(super) fn is_logged_out(error: &ServerError) -> bool {
    code(error) == "NOAUTH"
}

/// Whether the server is there and cannot work now.
pub(super) fn is_no_service(error: &ServerError) -> bool {
    matches!(code(error), "BUSY" | "LOADING" | "MISCONF" | "MASTERDOWN")
}

/// Whether the ACL of the user, or a server or proxy without this command, refuses it.
pub(super) fn is_forbidden(error: &ServerError) -> bool {
    code(error) == "NOPERM" || text(error).contains("unknown command")
}

/// A server that takes no writes.
pub(super) fn replica() -> StoreError {
    StoreError::unavailable("Redis is a read-only replica")
}

/// A reply that no command or script of this crate gives.
pub(super) fn unexpected_reply() -> StoreError {
    StoreError::unavailable("Redis gave a reply that is not a decision")
}

/// A key that something else has written.
pub(super) fn foreign_key() -> StoreError {
    StoreError::misconfigured(FOREIGN)
}

/// Refuses a request that a mode cannot decide.
pub(super) fn unsupported<T>(message: impl Into<Cow<'static, str>>) -> Result<T, StoreError> {
    Err(StoreError::unsupported(message))
}

/// Refuses a request for the first of these reasons that holds, and says what to do `instead`.
pub(super) fn refuse(reasons: &[(bool, &str)], instead: &str) -> Result<(), StoreError> {
    let reason = reasons.iter().find(|(holds, _)| *holds);
    reason.map_or(Ok(()), |(_, reason)| unsupported(format!("{reason}: {instead}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

    use redis::{Value, parse_redis_value};

    use super::*;

    fn reply(wire: &str) -> ServerError {
        match parse_redis_value(format!("-{wire}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => error,
            other => panic!("not an error: {other:?}"),
        }
    }

    #[test]
    fn a_server_that_is_no_sentinel_is_said_to_be_none() {
        for wire in [
            "ERR unknown command 'SENTINEL', with args beginning with: 'GET-MASTER-ADDR-BY-NAME' 'main' ",
            "ERR unknown command `SENTINEL`, with args beginning with: `GET-MASTER-ADDR-BY-NAME`, `main`, ",
        ] {
            let error = from_server(&reply(wire));
            assert!(error.kind() == Misconfigured && error.message().contains("is no sentinel"), "{error}");
        }
        let no_cell = from_server(&reply("ERR unknown command 'CL.THROTTLE', with args beginning with: 'alice' "));
        assert!(no_cell.kind() == Misconfigured && no_cell.message().contains("redis-cell"), "{no_cell}");
        assert!(from_server(&reply("ERR unknown command 'EVALSHA'")).message().contains("EVAL, EVALSHA"));
    }

    #[test]
    fn replies() {
        let table = [
            (Full, "OOM", "OOM command not allowed when used memory > 'maxmemory'."),
            (
                Full,
                "OOM",
                "ERR Error running script (call to f_6b1b): @user_script:9: @user_script: 9: -OOM command not allowed when used memory > 'maxmemory'. ",
            ),
            (Misconfigured, "NOAUTH", "NOAUTH Authentication required."),
            (Misconfigured, "WRONGPASS", "WRONGPASS invalid username-password pair or user is disabled."),
            (Misconfigured, "NOPERM", "NOPERM this user has no permissions to run the 'evalsha' command"),
            (
                Misconfigured,
                "ERR",
                "ERR The user executing the script can't run this command or subcommand script: 6b1b, on @user_script:1.",
            ),
            (Misconfigured, "ERR", "ERR ACL failure in script: User x has no permissions to run the 'zadd' command"),
            (
                Misconfigured,
                "WRONGTYPE",
                "WRONGTYPE Operation against a key holding the wrong kind of value script: 6b1b, on @user_script:1.",
            ),
            (
                Misconfigured,
                "WRONGTYPE",
                "ERR Error running script (call to f_6b1b): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value ",
            ),
            (Misconfigured, "ERR", "ERR Error compiling script (new function): user_script:1: '=' expected near 'x'"),
            (Misconfigured, "ERR", "ERR unknown command 'EVALSHA', with args beginning with: 'OOM' '1' 'alice' "),
            (Misconfigured, "MOVED", "MOVED 3999 127.0.0.1:6381"),
            (
                Misconfigured,
                "CLOCK",
                "CLOCK the time of the decision is 1700000000000000, which is in no period of this call",
            ),
            (Misconfigured, "CROSSSLOT", "CROSSSLOT Keys in request don't hash to the same slot"),
            (Unavailable, "READONLY", "READONLY You can't write against a read only replica."),
            (
                Unavailable,
                "READONLY",
                "ERR Error running script (call to f_6b1b): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica. ",
            ),
            (Unavailable, "LOADING", "LOADING Redis is loading the dataset in memory"),
            (
                Unavailable,
                "BUSY",
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            ),
            (
                Unavailable,
                "MISCONF",
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist on disk.",
            ),
            (
                Unavailable,
                "MISCONF",
                "ERR Error running script (call to f_6b1b): @user_script:1: @user_script: 1: -MISCONF Redis is configured to save RDB snapshots",
            ),
            (
                Unavailable,
                "MASTERDOWN",
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            ),
            (Unavailable, "CLUSTERDOWN", "CLUSTERDOWN The cluster is down"),
            (Unavailable, "NOREPLICAS", "NOREPLICAS Not enough good replicas to write."),
            (Unavailable, "TRYAGAIN", "TRYAGAIN Multiple keys request during rehashing of slot"),
            (Unavailable, "ERR", "ERR max number of clients reached"),
            (Unavailable, "ERR", "ERR Script killed by user with SCRIPT KILL... script: 6b1b, on @user_script:1."),
            (Misconfigured, "DENIED", "DENIED Redis is running in protected mode because protected mode is enabled"),
            (Misconfigured, "NOVEL", "NOVEL something that this version does not know"),
        ];
        for (kind, expected, wire) in table {
            let error = reply(wire);
            assert_eq!(code(&error), expected, "{wire}");
            assert_eq!(from_server(&error).kind(), kind, "{wire}");
        }
    }

    #[test]
    fn quoted_arguments_stay_out_of_the_message() {
        let error = from_server(&reply("ERR unknown command 'EVALSHA', with args beginning with: 'ab' '1' 'alice' "));
        assert!(!format!("{error} {error:?}").contains("alice"), "{error:?}");
    }
}

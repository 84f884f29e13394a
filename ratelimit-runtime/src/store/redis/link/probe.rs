//! Asking a server for its state: by a PING and, with it, whether it takes writes.
//!
//! A replica answers READONLY to writes, and a refusal writes nothing: callers that are only
//! refused would stay for ever with a master that has become a replica. So a server in use is asked
//! for its role. If the user may not ask for it, a script answers that declares writes and does
//! nothing.

use std::sync::atomic::Ordering::Relaxed;

use redis::{Cmd, Pipeline, Value};

use super::connection::Connection;
use crate::error::StoreError;
use crate::store::redis::errors;

/// Redis refuses this script on a replica; servers before 7.0 do not know its first line.
const MAY_WRITE: &str = "#!lua\nreturn 1";

/// A key that is never stored.
const NO_KEY: &str = "rl1:";

/// The commands that a server must answer before calls with scripts use a new connection. The
/// last, `expire`, is that by which scripts set expiries. A server that pauses
/// writes does not reply to all.
pub(crate) fn greeting(mut scripts: Pipeline, expire: &str) -> Pipeline {
    scripts.add_command(may_write());
    scripts.cmd(expire).arg(NO_KEY).arg(1);
    scripts
}

/// An error if the reply to the last command is that the user may not send it. A script that may
/// not set an expiry would leave its charge for ever. An error that names no
/// command is about the key.
pub(super) fn may_expire(replies: &[Value]) -> Result<(), StoreError> {
    match replies.last() {
        Some(Value::ServerError(error)) if errors::lacks_command(error) => {
            Err(errors::from_server(error))
        }
        _ => Ok(()),
    }
}

/// The state of a server.
#[derive(Debug, Clone)]
pub(super) enum Probed {
    /// The server serves, and takes writes.
    Serves,
    /// The server serves. It is not known whether it takes writes.
    RoleUnknown,
    /// The server is running, but cannot serve now.
    Busy(StoreError),
    Replica,
}

/// Asks the server for its state, and waits for the answer, however long that takes.
///
/// # Errors
///
/// If the connection has ended, or the server gives a reply that makes it useless.
pub(super) async fn probe(
    connection: &Connection,
    greeting: Option<&Pipeline>,
) -> Result<Probed, StoreError> {
    let number = connection.number().to_string();
    let mut questions = redis::pipe();
    questions.cmd("PING").arg(&number).cmd("ROLE");
    if greeting.is_none() {
        // Transactions have connections of their own, of which a PING here tells nothing.
        questions.cmd("UNLINK").arg(NO_KEY);
    }
    let expire = greeting.and_then(|greeting| greeting.cmd_iter().last());
    let expire = expire.filter(|_| connection.asks_for_rights.swap(false, Relaxed));
    if let Some(expire) = expire {
        questions.add_command(expire.clone());
    }
    let replies = connection.ask(&questions).await?;
    if expire.is_some() {
        may_expire(&replies)?;
    }
    let [pong, role, ..] = replies.as_slice() else {
        return Err(errors::unexpected_reply());
    };
    if is_named(role, b"sentinel") {
        return Err(StoreError::misconfigured(
            "this server is a sentinel: write redis+sentinel:// and the name of its master",
        ));
    }
    match pong {
        Value::BulkString(echo) if echo == number.as_bytes() => {}
        Value::ServerError(error) if errors::is_no_service(error) => {
            return Ok(Probed::Busy(errors::from_server(error)));
        }
        // A user without the right to PING is served.
        Value::ServerError(error) if errors::is_forbidden(error) => {}
        Value::ServerError(error) => return Err(errors::from_server(error)),
        _ => return Err(errors::unexpected_reply()),
    }
    if let Some(probed) = role_of(role) {
        return Ok(probed);
    }
    let mut script = Pipeline::new();
    script.add_command(may_write());
    let replies = connection.ask(&script).await?;
    Ok(replies
        .first()
        .and_then(role_of)
        .unwrap_or(Probed::RoleUnknown))
}

/// A call of the script that declares writes and does nothing.
fn may_write() -> Cmd {
    redis::cmd("EVAL").arg(MAY_WRITE).arg(0).take()
}

/// `true` if a reply to ROLE begins with this.
fn is_named(role: &Value, name: &[u8]) -> bool {
    let Value::Array(role) = role else {
        return false;
    };
    matches!(role.first(), Some(Value::BulkString(role)) if role == name)
}

/// The state that a reply to ROLE, or to the script, shows; `None` if the question is refused.
fn role_of(reply: &Value) -> Option<Probed> {
    match reply {
        Value::ServerError(error) if errors::is_replica(error) => Some(Probed::Replica),
        Value::ServerError(error) if errors::is_no_service(error) => {
            Some(Probed::Busy(errors::from_server(error)))
        }
        Value::ServerError(error)
            if errors::is_forbidden(error) || errors::code(error) == "ERR" =>
        {
            None
        }
        role if is_named(role, b"slave") => Some(Probed::Replica),
        _ => Some(Probed::Serves),
    }
}

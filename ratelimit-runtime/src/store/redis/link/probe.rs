//! Asking a server how it is: a PING and, beside it, whether it takes writes.
//!
//! A replica answers READONLY to what writes, and a refusal writes nothing: callers who are only
//! refused would stay at a master that has become a replica for ever. So a server in use is asked
//! for its role. Where that is forbidden, a script that says it may write and does nothing tells.

use redis::{Pipeline, Value};

use super::connection::Connection;
use crate::error::StoreError;
use crate::store::redis::errors;

/// Redis refuses such a script on a replica before it runs; servers before 7.0 do not know the
/// first line.
const MAY_WRITE: &str = "#!lua\nreturn 1";

/// How a server is.
#[derive(Debug, Clone)]
pub(super) enum Probed {
    /// It serves, and takes writes.
    Serves,
    /// It serves. Whether it takes writes, it does not tell.
    RoleUnknown,
    /// It is there and cannot work now.
    Busy(StoreError),
    Replica,
}

/// Asks the server how it is. Waits for the answer, however long that takes.
///
/// # Errors
///
/// The connection has ended, or the server answers so that it is of no use.
pub(super) async fn probe(connection: &Connection) -> Result<Probed, StoreError> {
    let number = connection.number().to_string();
    let mut questions = redis::pipe();
    questions.cmd("PING").arg(&number).cmd("ROLE");
    let replies = connection.ask(&questions).await?;
    let [pong, role] = replies.as_slice() else {
        return Err(errors::unexpected_reply());
    };
    match pong {
        Value::BulkString(echo) if echo == number.as_bytes() => {}
        Value::ServerError(error) if errors::is_no_service(error) => {
            return Ok(Probed::Busy(errors::from_server(error)));
        }
        // A user who may not PING is served.
        Value::ServerError(error) if errors::is_forbidden(error) => {}
        Value::ServerError(error) => return Err(errors::from_server(error)),
        _ => return Err(errors::unexpected_reply()),
    }
    if let Some(probed) = role_of(role) {
        return Ok(probed);
    }
    let mut script = Pipeline::new();
    script.cmd("EVAL").arg(MAY_WRITE).arg(0);
    let replies = connection.ask(&script).await?;
    Ok(replies
        .first()
        .and_then(role_of)
        .unwrap_or(Probed::RoleUnknown))
}

/// What the reply to a ROLE, or to the script, tells; `None` where that is not answered.
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
        Value::Array(role) if matches!(role.first(), Some(Value::BulkString(name)) if name == b"slave") => {
            Some(Probed::Replica)
        }
        _ => Some(Probed::Serves),
    }
}

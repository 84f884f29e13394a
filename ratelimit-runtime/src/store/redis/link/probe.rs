//! Asking a server how it is: a PING and, beside it, whether it takes writes.
//!
//! A replica answers READONLY to what writes, and a refusal writes nothing: callers who are only
//! refused would stay at a master that has become a replica for ever. So a server in use is asked
//! for its role. Where that is forbidden, a script that says it may write and does nothing tells.

use redis::{Cmd, Value, cmd};

use crate::error::StoreError;
use crate::store::redis::errors;

/// Redis refuses such a script on a replica before it runs; servers before 7.0 do not know the
/// first line.
const MAY_WRITE: &str = "#!lua\nreturn 1";

/// How a server is.
#[derive(Debug, Clone)]
pub(crate) enum Probed {
    /// It serves, and says that it is a master.
    Master,
    /// It serves, and takes writes.
    Serves,
    /// It serves. Whether it takes writes, it does not tell.
    RoleUnknown,
    /// It is there and cannot work now.
    Busy(StoreError),
    Replica,
    /// It answers so that the connection is of no use.
    Refused(StoreError),
}

impl Probed {
    /// Why it cannot be used now.
    pub(crate) fn error(self) -> Option<StoreError> {
        match self {
            Self::Master | Self::Serves | Self::RoleUnknown => None,
            Self::Busy(error) | Self::Refused(error) => Some(error),
            Self::Replica => Some(errors::replica()),
        }
    }
}

/// In which way a server is asked whether it takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum RoleQuestion {
    #[default]
    Role,
    Script,
    /// It does not tell.
    None,
}

impl RoleQuestion {
    /// What to ask where this is not answered.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Role => Self::Script,
            Self::Script | Self::None => Self::None,
        }
    }

    pub(super) fn command(self) -> Option<Cmd> {
        match self {
            Self::Role => Some(cmd("ROLE")),
            Self::Script => Some(cmd("EVAL").arg(MAY_WRITE).arg(0).take()),
            Self::None => None,
        }
    }

    /// The role that a reply tells; `None` if another question has to be asked.
    pub(super) fn read(self, reply: &Value) -> Option<Probed> {
        match reply {
            Value::ServerError(error) if errors::is_replica(error) => Some(Probed::Replica),
            Value::ServerError(error) if errors::is_no_service(error) => Some(Probed::Busy(errors::from_server(error))),
            Value::ServerError(error) if errors::is_forbidden(error) || errors::code(error) == "ERR" => None,
            Value::Array(parts) if self == Self::Role => match parts.first()? {
                Value::BulkString(name) if name == b"slave" => Some(Probed::Replica),
                Value::BulkString(name) if name == b"master" => Some(Probed::Master),
                _ => Some(Probed::Serves),
            },
            _ => Some(Probed::Serves),
        }
    }
}

/// What the reply to a PING says, unless that is that the server serves.
pub(super) fn unwell(pong: &Value, number: &[u8]) -> Option<Probed> {
    match pong {
        Value::BulkString(echo) if echo == number => None,
        Value::ServerError(error) if errors::is_no_service(error) => Some(Probed::Busy(errors::from_server(error))),
        // A user who may not PING is served.
        Value::ServerError(error) if errors::is_forbidden(error) => None,
        Value::ServerError(error) => Some(Probed::Refused(errors::from_server(error))),
        _ => Some(Probed::Refused(errors::unexpected_reply())),
    }
}

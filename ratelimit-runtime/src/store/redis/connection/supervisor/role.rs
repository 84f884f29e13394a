//! Whether a connected server has become a read-only replica.
//!
//! A replica answers `READONLY` to what writes, and a refusal writes nothing: a process all of
//! whose calls are refused would be refused by a demoted master for ever, by state that nothing
//! updates. So a server that is in use is asked for its role. The question goes over the connection
//! itself, in order with the calls, one at a time: a server that hangs is asked once, and what it
//! answers is what the calls meet.

use std::fmt::Display;
use std::sync::Weak;
use std::time::Duration;

use redis::{Cmd, ServerError, Value, cmd};

use super::info::{field, text};
use crate::store::redis::connection::exchange::Exchange;
use crate::store::redis::connection::node::registry::NodeRegistry;
use crate::store::redis::connection::pool::Pool;
use crate::store::redis::errors;
use crate::store::redis::wire::commands::{CallError, Commands};
use crate::{observe, real_time};

/// How often a server that is in use is asked.
const EVERY: Duration = Duration::from_secs(1);

/// What a server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It takes writes, also where it is a replica that is set to.
    Writable,
    ReadOnlyReplica,
}

/// Completes once a server that takes calls is a read-only replica. Never completes where neither
/// `ROLE` nor `INFO` is allowed, or where a proxy answers that has no role; that is told once for
/// each server.
pub(super) async fn demoted(exchange: Exchange, pool: Pool, server: impl Display, registry: Weak<NodeRegistry>) {
    let uses = || (exchange.uses(), pool.leases());
    let mut asked_at = uses();
    let mut is_role_allowed = true;
    loop {
        real_time::sleep_by_tokio(EVERY).await;
        let now = uses();
        if now == asked_at {
            continue;
        }
        asked_at = now;
        let mut is_replica = false;
        if is_role_allowed {
            match ask(&exchange, &cmd("ROLE")).await {
                Answer::Reply(reply) if is_replica_by_role(&reply) => is_replica = true,
                Answer::Reply(_) | Answer::None => continue,
                Answer::Refused => is_role_allowed = false,
            }
        }
        // Says also whether a replica takes writes.
        let role = match ask(&exchange, cmd("INFO").arg("replication")).await {
            Answer::None => continue,
            Answer::Reply(info) => text(&info).and_then(role_by_info),
            Answer::Refused => None,
        };
        match role {
            Some(Role::ReadOnlyReplica) => return,
            Some(Role::Writable) => {}
            None if is_replica => return,
            None => break,
        }
    }
    if registry.upgrade().is_some_and(|registry| registry.is_first_to_miss_role()) {
        observe::log::role_unknown(&server);
    }
    std::future::pending::<()>().await;
}

/// What came of a question.
enum Answer {
    Reply(Value),
    /// The server does not answer this question, to this user or to any.
    Refused,
    /// There is no answer now: it does not serve, or the connection is over.
    None,
}

async fn ask(exchange: &Exchange, question: &Cmd) -> Answer {
    let error = match exchange.send_upkeep(Commands::one(question, |_| true)).await {
        Ok(Value::ServerError(error)) | Err(CallError::Server(error)) => error,
        Ok(reply) => return Answer::Reply(reply),
        Err(_) => return Answer::None,
    };
    if is_passing(&error) { Answer::None } else { Answer::Refused }
}

/// Whether another attempt may be answered.
fn is_passing(error: &ServerError) -> bool {
    errors::is_no_service(error) || errors::is_logged_out(error)
}

/// Whether this is what a replica replies to `ROLE`.
fn is_replica_by_role(reply: &Value) -> bool {
    matches!(reply, Value::Array(parts) if matches!(parts.first(), Some(Value::BulkString(role)) if role == b"slave"))
}

/// The role of a server with this `INFO replication`, if that names it.
fn role_by_info(info: &str) -> Option<Role> {
    match field(info, "role")? {
        "slave" if field(info, "slave_read_only") != Some("0") => Some(Role::ReadOnlyReplica),
        _ => Some(Role::Writable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_told_from_a_master_and_from_a_replica_that_takes_writes() {
        let role = |info: &str| role_by_info(info);
        assert_eq!(role("# Replication\r\nrole:master\r\nconnected_slaves:1\r\n"), Some(Role::Writable));
        assert_eq!(role("# Replication\r\nrole:slave\r\nslave_read_only:1\r\n"), Some(Role::ReadOnlyReplica));
        assert_eq!(role("role:slave\r\nmaster_host:127.0.0.1\r\n"), Some(Role::ReadOnlyReplica));
        assert_eq!(role("role:slave\r\nslave_read_only:0\r\n"), Some(Role::Writable));
        // KeyDB, whose replicas may write.
        assert_eq!(role("role:active-replica\r\nslave_read_only:1\r\n"), Some(Role::Writable));
        assert_eq!(role("# Proxy\r\nversion:1\r\n"), None);
    }

    #[test]
    fn only_a_replica_says_so_to_role() {
        let reply = |role: &str| Value::Array(vec![Value::BulkString(role.into()), Value::Int(0)]);
        assert!(is_replica_by_role(&reply("slave")));
        for other in [reply("master"), reply("sentinel"), Value::Array(Vec::new()), Value::Okay] {
            assert!(!is_replica_by_role(&other), "{other:?}");
        }
    }
}

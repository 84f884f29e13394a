//! Asks the nodes of a cluster for its slots, one after the other, without waiting for one that is
//! slow.

use std::sync::Arc;
use std::time::Duration;

use redis::{Value, cmd};
use tokio::task::JoinSet;

use super::slot_map::{Range, ranges};
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::connection::attempt::connect_within;
use crate::store::redis::connection::node::Node;
use crate::store::redis::connection::resolve::Resolver;
use crate::store::redis::errors;
use crate::store::redis::wire::commands::Commands;
use crate::store::redis::wire::login::converse;
use crate::store::redis::wire::server::{Server, Session};

/// After this long without an answer, the next node is asked as well: a fifth of the timeout that
/// callers usually have.
const STAGGER: Duration = Duration::from_millis(20);

/// A node that can be asked.
pub(super) enum Candidate {
    /// Over the connection that calls use.
    Connected(Arc<Node>, Arc<Server>),
    Server(Arc<Server>),
}

/// The first answer that names any slots.
///
/// # Errors
///
/// If there is none: the first `Misconfigured`, or else the last error.
pub(crate) async fn slots(candidates: Vec<Candidate>) -> Result<Vec<Range>, StoreError> {
    let mut failed = StoreError::unavailable("no node of the Redis cluster can be asked for its slots");
    let mut asked = JoinSet::new();
    let mut candidates = candidates.into_iter();
    loop {
        let next = candidates.next();
        let is_last = next.is_none();
        if let Some(candidate) = next {
            asked.spawn(candidate.slots());
        } else if asked.is_empty() {
            return Err(failed);
        }
        let pause = async { if is_last { std::future::pending().await } else { real_time::sleep(STAGGER).await } };
        let answer = tokio::select! {
            biased;
            answer = asked.join_next() => answer,
            () = pause => None,
        };
        let Some(answer) = answer else { continue };
        match answer.unwrap_or_else(|_| Err(StoreError::unavailable("asking for the slots was cut short"))) {
            Ok(ranges) => return Ok(ranges),
            Err(error) if failed.kind() != StoreErrorKind::Misconfigured => failed = error,
            Err(_) => {}
        }
    }
}

impl Candidate {
    async fn slots(self) -> Result<Vec<Range>, StoreError> {
        let mut command = cmd("CLUSTER");
        command.arg("SLOTS");
        let (reply, server) = match self {
            Self::Connected(node, server) => {
                let are_slots = |reply: &Value| matches!(reply, Value::Array(_));
                (node.send(|| Commands::one(&command, are_slots)).await?, server)
            }
            Self::Server(server) => {
                let Session { mut stream, server, unready, .. } = connect_within(&(server as Resolver)).await?;
                if let Some(error) = unready {
                    return Err(error);
                }
                let replies = converse(&mut stream, &[command]).await.map_err(|error| server.not_logged_in(error))?;
                (replies.into_iter().next().unwrap_or(Value::Nil), server)
            }
        };
        if let Value::ServerError(error) = &reply {
            let is_no_cluster = error.details().is_some_and(|text| text.contains("cluster support disabled"));
            return Err(if is_no_cluster {
                StoreError::misconfigured(format!(
                    "Redis at {server} is not part of a cluster: write redis:// for a single server"
                ))
            } else {
                errors::from_server(error)
            });
        }
        let ranges = ranges(&reply, server.host().unwrap_or_default()).ok_or_else(errors::unexpected_reply)?;
        if ranges.is_empty() {
            return Err(StoreError::unavailable(format!("Redis at {server} knows of no slots that anybody serves")));
        }
        Ok(ranges)
    }
}

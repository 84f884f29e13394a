//! Asks the nodes of a cluster for its slots, one after the other, without waiting for one that is
//! slow.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tokio::task::JoinSet;

use super::node::{NodeAddress, Nodes};
use super::slot_ranges::{SlotRange, slot_ranges};
use crate::error::{StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::redis::batcher::{Batcher, Failure};
use crate::store::redis::errors;

/// After this long without an answer, the next node is asked as well: a fifth of the timeout that
/// callers usually have.
const STAGGER: Duration = Duration::from_millis(20);

/// A node that can be asked.
#[derive(Debug)]
pub(super) enum Candidate {
    /// Over the link that calls use.
    Linked(NodeAddress, Arc<Batcher>),
    /// Over a connection of its own.
    Other(NodeAddress, Arc<dyn Nodes>),
}

/// The first answer that names any slots.
///
/// # Errors
///
/// If there is none: the first `Misconfigured`, or else the last error.
pub(super) async fn slots(candidates: Vec<Candidate>) -> Result<Vec<SlotRange>, StoreError> {
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
        match answer {
            Some(Ok(Ok(ranges))) => return Ok(ranges),
            Some(Ok(Err(error))) if failed.kind() != StoreErrorKind::Misconfigured => failed = error,
            _ => {}
        }
    }
}

impl Candidate {
    async fn slots(self) -> Result<Vec<SlotRange>, StoreError> {
        let (at, reply) = match self {
            Self::Linked(at, batcher) => (at, ask(&batcher, &command("SLOTS")).await?),
            Self::Other(at, nodes) => {
                let reply = nodes.ask(&at, command("SLOTS")).await?;
                (at, reply)
            }
        };
        if let Value::ServerError(error) = &reply {
            let is_no_cluster = error.details().is_some_and(|text| text.contains("cluster support disabled"));
            return Err(if is_no_cluster {
                StoreError::misconfigured(format!(
                    "Redis at {at} is not part of a cluster: write redis:// for a single server"
                ))
            } else {
                errors::from_server(error)
            });
        }
        let ranges = slot_ranges(&reply, &at.host).ok_or_else(errors::unexpected_reply)?;
        if ranges.is_empty() {
            return Err(StoreError::unavailable(format!("Redis at {at} knows of no slots that a node serves")));
        }
        Ok(ranges)
    }
}

/// `CLUSTER` and a subcommand.
pub(super) fn command(subcommand: &str) -> Cmd {
    let mut command = cmd("CLUSTER");
    command.arg(subcommand);
    command
}

/// Sends a command that changes nothing. An error of the server is a value as any other.
pub(super) async fn ask(batcher: &Batcher, command: &Cmd) -> Result<Value, StoreError> {
    match batcher.send(command, false).await {
        Ok(reply) => Ok(reply),
        Err(Failure::Server(error)) => Ok(Value::ServerError(error)),
        Err(Failure::NotSent(error) | Failure::Lost(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use redis::parse_redis_value;

    use super::super::node::Reply;
    use super::*;

    /// Nodes that reply by their host's name.
    #[derive(Debug)]
    struct Named;

    impl Nodes for Named {
        fn master(&self, _: &NodeAddress) -> Result<Arc<Batcher>, StoreError> {
            unreachable!("nodes that serve nothing yet have no batcher")
        }

        fn ask(&self, at: &NodeAddress, _: Cmd) -> Reply {
            let said = match at.host.as_str() {
                "single" => "-ERR This instance has cluster support disabled\r\n",
                "empty" => "*0\r\n",
                "liar" => "+OK\r\n",
                "whole" => "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:7000\r\n",
                "dead" => return Box::pin(async { Err(StoreError::unavailable("dead")) }),
                _ => return Box::pin(std::future::pending()),
            };
            Box::pin(async move { Ok(parse_redis_value(said.as_bytes()).unwrap()) })
        }
    }

    async fn found(hosts: &[&str]) -> Result<Vec<SlotRange>, StoreError> {
        let nodes: Arc<dyn Nodes> = Arc::new(Named);
        let at = |host: &&str| NodeAddress { host: (*host).to_owned(), port: 1 };
        slots(hosts.iter().map(|host| Candidate::Other(at(host), Arc::clone(&nodes))).collect()).await
    }

    #[tokio::test]
    async fn the_first_node_that_knows_slots_is_believed() {
        for hosts in [&["whole"][..], &["frozen", "whole"], &["dead", "liar", "empty", "single", "frozen", "whole"]] {
            let [range] = &found(hosts).await.unwrap()[..] else { unreachable!("one range was named") };
            assert_eq!((range.first, range.last, range.master.to_string().as_str()), (0, 16_383, "whole:7000"));
        }
    }

    #[tokio::test]
    async fn where_none_knows_any_the_mistake_is_named_first() {
        let error = found(&["dead", "single", "empty"]).await.unwrap_err();
        assert!(error.kind() == StoreErrorKind::Misconfigured && error.message().contains("single:1"), "{error}");
        assert_eq!(found(&["liar", "empty"]).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
        assert!(found(&[]).await.unwrap_err().message().contains("no node"));
    }
}

//! [`Calls`]: how callers ask, and [`Way`], where what they ask goes.

use std::time::Instant;

use redis::{Cmd, Pipeline, ServerError, Value};

use super::cluster::{Path, Topology};
use crate::error::StoreError;
use crate::store::Verdict;
use crate::store::redis::batching::item::Item;
use crate::store::redis::connection::endpoint::Endpoint;
use crate::store::redis::connection::pool::Exclusive;
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::scripts::number::Number;
use crate::store::redis::scripts::protocol;
use crate::store::redis::scripts::script;
use crate::store::redis::wire::question::Question;
use crate::store::redis::wire::slot::Slot;

/// Where calls go.
pub(super) enum Way {
    /// To one server, or whichever is the master.
    One(Endpoint),
    Cluster(Topology),
}

/// How callers ask for the keys of one slot.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub(super) way: &'a Way,
    pub(crate) slot: Slot,
    pub(crate) timeout_at: Option<Instant>,
}

impl<'a> Calls<'a> {
    /// Sends one command, whose reply is like this. The outer error is the connection's, the inner one the server's reply.
    ///
    /// Dropping the future leaves nothing behind but the command, which may run.
    pub(crate) async fn send(
        &self,
        command: &Cmd,
        is_like: fn(&Value) -> bool,
    ) -> Result<Result<Value, ServerError>, StoreError> {
        self.answer(|| Question::command(command, is_like).until(self.timeout_at)).await
    }

    /// The same for the call of a script, written by `call` with the number it is given.
    pub(crate) async fn send_script(
        &self,
        call: impl Fn(Number) -> Vec<u8>,
        is_like: fn(&Value) -> bool,
    ) -> Result<Result<Value, ServerError>, StoreError> {
        self.answer(|| Question::script(&call, is_like).until(self.timeout_at)).await
    }

    /// Sends commands that all are carried out, or none, and gives their replies.
    ///
    /// # Errors
    ///
    /// Those of the connection, and the first that the server replies.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        match self.answer(|| Question::transaction(commands).until(self.timeout_at)).await? {
            Ok(Value::Array(replies)) => Ok(replies),
            Ok(_) => Err(unexpected_reply()),
            Err(error) => Err(errors::from_server(&error)),
        }
    }

    async fn answer(&self, question: impl Fn() -> Question) -> Result<Result<Value, ServerError>, StoreError> {
        let mut turn = self.turn().await?;
        loop {
            let said = turn.ask(&question).await;
            if let Some(answer) = turn.arrived(said).await {
                return answer;
            }
        }
    }

    /// Asks for a decision. It may share a call with others, and is asked in the order of those on its key.
    pub(crate) async fn decide(&self, item: &Item<'_>) -> Result<Verdict, StoreError> {
        let said = match self.way {
            Way::One(endpoint) => endpoint.node()?.decide(item).await?,
            // Large, and rarely one after the other.
            Way::Cluster(_) => Box::pin(self.decide_in_cluster(item)).await?,
        };
        said.map_err(|error| errors::from_server(&error))
    }

    async fn decide_in_cluster(&self, item: &Item<'_>) -> Result<Result<Verdict, ServerError>, StoreError> {
        let mut turn = self.turn().await?;
        loop {
            let said = turn.decide(item).await;
            if let Some(answer) = turn.arrived(said).await {
                return answer;
            }
        }
    }

    /// Ends the connection, because its reply cannot belong to the question.
    pub(crate) fn end(&self, error: &StoreError) {
        match self.way {
            Way::One(endpoint) => {
                if let Some(node) = endpoint.known_node() {
                    node.end(error);
                }
            }
            Way::Cluster(topology) => topology.end(self.slot, error),
        }
    }

    /// For those who need more than one question: whom to ask first, and next.
    pub(crate) async fn turn(&self) -> Result<Turn<'a>, StoreError> {
        Ok(match self.way {
            Way::One(endpoint) => Turn::One(endpoint),
            Way::Cluster(topology) => Turn::Cluster(Path::to(topology, self.slot, self.timeout_at).await?),
        })
    }
}

/// Whom to ask now.
pub(crate) enum Turn<'a> {
    One(&'a Endpoint),
    Cluster(Path<'a>),
}

impl Turn<'_> {
    async fn ask(&self, question: &impl Fn() -> Question) -> Result<Result<Value, ServerError>, StoreError> {
        let reply = match self {
            Self::One(endpoint) => endpoint.node()?.ask(question).await?,
            Self::Cluster(path) if path.is_asking() => path.node()?.ask(|| question().asking()).await?,
            Self::Cluster(path) => path.node()?.ask(question).await?,
        };
        Ok(match reply {
            Value::ServerError(error) => Err(error),
            Value::Array(replies) => errors::first(&replies).cloned().map_or(Ok(Value::Array(replies)), Err),
            reply => Ok(reply),
        })
    }

    async fn decide(&self, item: &Item<'_>) -> Result<Result<Verdict, ServerError>, StoreError> {
        let path = match self {
            Self::One(endpoint) => return endpoint.node()?.decide(item).await,
            Self::Cluster(path) => path,
        };
        if !path.is_asking() {
            return path.node()?.decide(item).await;
        }
        let said = match self.ask(&|| item.alone(false)).await? {
            Err(error) if script::is_unknown(&error) => self.ask(&|| item.alone(true)).await?,
            said => said,
        };
        said.map(|reply| protocol::verdict(&reply).ok_or_else(unexpected_reply))
            .map_or_else(|error| Ok(Err(error)), |verdict| verdict.map(Ok))
    }

    /// The way to a connection that nobody else uses.
    pub(crate) async fn exclusive(&self) -> Result<Exclusive, StoreError> {
        let (node, is_asking) = match self {
            Self::One(endpoint) => (endpoint.node()?, false),
            Self::Cluster(path) => (path.node()?, path.is_asking()),
        };
        Ok(Exclusive::new(node.connected().await?.pool, is_asking))
    }

    /// Looks at what came of asking: an answer, or nothing if it is to be asked again.
    pub(crate) async fn arrived<T>(
        &mut self,
        said: Result<Result<T, ServerError>, StoreError>,
    ) -> Option<Result<Result<T, ServerError>, StoreError>> {
        match self {
            Self::One(_) => Some(said),
            Self::Cluster(path) => path.arrived(said).await,
        }
    }
}

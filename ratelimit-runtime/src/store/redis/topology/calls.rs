//! [`Calls`]: what callers send to the server of a slot.

use std::time::Instant;

use redis::{Cmd, Pipeline, Value};

use super::router::{Destination, Router};
use crate::error::StoreError;
use crate::store::Verdict;
use crate::store::redis::batching::charge::KeyCharge;
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::scripts::group::Group;
use crate::store::redis::wire::commands::{Commands, ServerResult};
use crate::store::redis::wire::slot::Slot;

/// Calls for the keys of one slot, until a timeout. A call is sent again where it was redirected,
/// or did not leave this process; never where its reply was lost.
///
/// Dropping a future of these leaves nothing behind but what has been sent, which may be carried
/// out.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub(super) router: &'a Router,
    pub(super) slot: Slot,
    pub(super) timeout_at: Option<Instant>,
}

impl<'a> Calls<'a> {
    /// Sends one command, whose reply is like this.
    pub(crate) async fn send(&self, command: &Cmd, is_like: fn(&Value) -> bool) -> ServerResult<Value> {
        self.answer(|| Commands::one(command, is_like).until(self.timeout_at)).await
    }

    /// Asks a group of questions, and gives its records. The group may share a call with others.
    pub(crate) async fn ask_group(&self, group: &Group) -> ServerResult<Value> {
        self.answer(|| Commands::group(group.clone()).until(self.timeout_at)).await
    }

    /// Sends commands of which all are carried out, or none, and gives their replies.
    ///
    /// # Errors
    ///
    /// Those of the connection, and the first that the server replies.
    pub(crate) async fn send_all(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        match self.answer(|| Commands::transaction(pipeline).until(self.timeout_at)).await? {
            Ok(Value::Array(replies)) => Ok(replies),
            Ok(_) => Err(unexpected_reply()),
            Err(error) => Err(errors::from_server(&error)),
        }
    }

    async fn answer(&self, commands: impl Fn() -> Commands) -> ServerResult<Value> {
        let mut destination = self.destination().await?;
        loop {
            let answer = destination.send(&commands).await;
            if let Some(answer) = destination.follow_redirect(answer).await {
                return answer;
            }
        }
    }

    /// Charges a key. The charge may share a call with others, and is sent in the order of those of
    /// its key.
    pub(crate) async fn charge(&self, charge: &KeyCharge<'_>) -> Result<Verdict, StoreError> {
        let answer = match self.router {
            Router::One(nodes) => nodes.current()?.charge(charge).await?,
            // Large, and rarely one after the other.
            Router::Cluster(_) => Box::pin(self.charge_in_cluster(charge)).await?,
        };
        answer.map_err(|error| errors::from_server(&error))
    }

    async fn charge_in_cluster(&self, charge: &KeyCharge<'_>) -> ServerResult<Verdict> {
        let mut destination = self.destination().await?;
        loop {
            let answer = destination.charge(charge).await;
            if let Some(answer) = destination.follow_redirect(answer).await {
                return answer;
            }
        }
    }

    /// Ends the connection, whose reply cannot belong to what was sent.
    pub(crate) fn end(&self, error: &StoreError) {
        self.router.end(self.slot, error);
    }

    /// The node to ask first, for callers that send more than once.
    pub(crate) async fn destination(&self) -> Result<Destination<'a>, StoreError> {
        self.router.destination(self.slot, self.timeout_at).await
    }
}

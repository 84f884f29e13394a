//! [`Fetch`]: takes units ahead, and gives back the units that are left.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::grant::Grant;
use super::grants::{Grants, MOST_GRANTS};
use crate::error::StoreError;
use crate::store::redis::scripts::{Operation, Question, Reply, own_time};
use crate::store::redis::servers::Servers;
use crate::{observe, pace};

/// The task of one grant, which belongs to the client and to no caller. The grant ends with it,
/// also if its runtime ends.
pub(crate) struct Fetch {
    grants: Arc<Grants>,
    grant: Arc<Grant>,
    _open: watch::Receiver<()>,
}

impl Fetch {
    pub(super) fn new(grants: &Arc<Grants>, grant: Arc<Grant>) -> Self {
        Self {
            _open: grant.opened(),
            grants: Arc::clone(grants),
            grant,
        }
    }

    /// Starts the task.
    pub(crate) fn spawn(self, servers: &Arc<Servers>) {
        tokio::spawn(self.run(Arc::clone(servers)));
    }

    /// Takes units ahead, after the call that found none, and gives back the rest when the lease is
    /// over.
    async fn run(self, servers: Arc<Servers>) {
        let (grants, grant) = (&self.grants, &self.grant);
        let (sent, operation) = (grants.now(&grant.of.key), Operation::Grant(grant.lease));
        let granted = self.ask(&servers, operation, grant.wanted);
        let Ok(reply) = granted.await else {
            return;
        };
        let lasts = Duration::from_micros(grant.open(reply, sent, grants.now(&grant.of.key)));
        let spending = async {
            while let Some(left) = grant.changed().await {
                for next in std::iter::from_fn(|| grants.next(grant)).take(MOST_GRANTS - 1) {
                    Self::new(grants, next).spawn(&servers);
                }
                if left == 0 {
                    return;
                }
            }
        };
        let _ = pace::timeout(lasts, spending).await;
        grants.end(grant);
        // A call that found too few units has ended it, asks, and takes ahead: both first.
        pace::READY_TASKS_RUN.pass().await;
        let left = grant.left();
        let mut given_back = 0;
        if let Some(granted) = grant.owed(grants.now(&grant.of.key).epoch) {
            let operation = Operation::GiveBack(granted);
            let answer = self.ask(&servers, operation, left);
            given_back = answer.await.map_or(0, |_| left);
        }
        observe::prefetched(reply.granted().units, left, given_back);
    }

    async fn ask(
        &self,
        servers: &Servers,
        operation: Operation,
        units: u64,
    ) -> Result<Reply, StoreError> {
        let request = self.grant.request(units);
        let now = own_time(self.grants.clock.as_deref())?;
        let question = Question::new(operation, &request, now);
        servers.ask(request.key(), question, None).await
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.grants.remove(&self.grant);
    }
}

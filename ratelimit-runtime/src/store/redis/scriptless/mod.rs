//! Deciding without scripts, for servers that forbid them. [`Route`]: the script, transaction or
//! command of redis-cell that decides a request.

use std::sync::Arc;

use super::batcher::Batcher;
use super::scripts::{Operation, Reply};
use super::servers::Servers;
use super::settings::StoreSettings;
use super::settings::mode::RedisMode;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::Algorithm;
use crate::store::{Capabilities, Feature, Request};

mod fixed_window;
mod key_turn;
mod lent;
mod log;
mod redis_cell;
mod sliding_window;

/// The script, transaction or command that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Script,
    /// Transactions on a log: for algorithms that keep one.
    Log,
    /// A transaction on a counter.
    Counter,
    /// `CL.THROTTLE`.
    RedisCell,
}

impl Route {
    const ALL: [Self; 4] = [Self::Log, Self::Counter, Self::RedisCell, Self::Script];

    fn of(mode: RedisMode, algorithm: Algorithm) -> Self {
        match (mode, algorithm) {
            (RedisMode::Transactions, Algorithm::FixedWindow) => Self::Counter,
            (RedisMode::Transactions, _) => Self::Log,
            (RedisMode::RedisCell, Algorithm::LeakyBucket) => Self::RedisCell,
            (RedisMode::Scripts | RedisMode::RedisCell, _) => Self::Script,
        }
    }

    /// The suffix of stored keys: each route keeps its own state. No rendered key ends with one of
    /// them.
    fn suffix(self) -> &'static [u8] {
        match self {
            Self::Script => b"",
            Self::Log => b"%log",
            Self::Counter => b"%plain",
            Self::RedisCell => b"%cell",
        }
    }

    /// The key as stored.
    pub(crate) fn key(self, request: &Request<'_>) -> Vec<u8> {
        [request.key(), self.suffix()].concat()
    }

    /// The key of the request for a stored key; `None` for a key of another route.
    pub(crate) fn key_of(self, mut stored: Vec<u8>) -> Option<Vec<u8>> {
        let of = Self::ALL
            .into_iter()
            .find(|route| stored.ends_with(route.suffix()))?;
        stored.truncate(stored.len() - of.suffix().len());
        (of == self).then_some(stored)
    }

    /// Carries an operation out without a script. Without `clock`, the time is the server's.
    pub(crate) async fn carry_out(
        self,
        servers: &Servers,
        clock: Option<&dyn Clock>,
        operation: Operation,
        request: Request<'_>,
    ) -> Result<Reply, StoreError> {
        let (key, charges) = (
            &*self.key(&request),
            matches!(operation, Operation::Acquire),
        );
        debug_assert!(self != Self::Script, "a script is no way without scripts");
        let run = |batcher: Arc<Batcher>, asking| async move {
            match self {
                Self::RedisCell => {
                    redis_cell::decide(&batcher, asking, charges, key, &request).await
                }
                Self::Counter => {
                    fixed_window::decide(&batcher, asking, charges, key, &request).await
                }
                Self::Log | Self::Script => {
                    let (link, at) = (batcher.link(), (key, request));
                    sliding_window::carry_out(link, asking, clock, operation, at).await
                }
            }
        };
        servers.at(key, run).await.map(Reply::from)
    }
}

impl StoreSettings {
    pub(crate) fn capabilities(&self) -> Capabilities {
        use Feature::{Keys, Limits, Refund};
        let own_clock = self.clock.is_some();
        let mut all = Capabilities::none();
        for &algorithm in Algorithm::ALL {
            let features: &[Feature] = match Route::of(self.mode, algorithm) {
                Route::Script => {
                    all = all.with_all(algorithm);
                    continue;
                }
                Route::Log if algorithm.row().is_log => &[Limits, Refund, Keys],
                // The expiry of the key ends its window, by the server's clock.
                Route::Counter if !own_clock => &[Keys],
                // The command does not declare its key, so a node of a cluster does not redirect
                // it.
                Route::RedisCell if !own_clock && !self.is_cluster() => &[Keys],
                _ => continue,
            };
            all = all.with(algorithm, features);
        }
        all
    }

    /// The route by which an operation is carried out.
    ///
    /// # Errors
    ///
    /// `Unsupported`; the message names what to choose instead.
    pub(crate) fn route(
        &self,
        operation: Operation,
        request: &Request<'_>,
    ) -> Result<Route, StoreError> {
        let algorithm = request.algorithm();
        // Each unit of cost is written by itself: a script that wrote 2⁵² of them would never end.
        if algorithm.row().is_log && request.cost() > Algorithm::MOST_IN_LOG {
            let (cost, most) = (request.cost(), Algorithm::MOST_IN_LOG);
            return Err(StoreError::unsupported(format!(
                "a call of cost {cost} is above {most}, the most that a sliding window takes"
            )));
        }
        let route = Route::of(self.mode, algorithm);
        if route == Route::Script {
            return Ok(route);
        }
        let capabilities = self.capabilities();
        let supported = capabilities.supports(request).and_then(|()| {
            let feature = match operation {
                Operation::Acquire | Operation::Peek if route == Route::RedisCell => {
                    return redis_cell::supports(request);
                }
                Operation::Acquire | Operation::Peek => return Ok(()),
                Operation::Refund(_) => Feature::Refund,
                Operation::Settle(..) | Operation::Grant(_) | Operation::GiveBack(_) => {
                    Feature::Reserve
                }
                Operation::Offend | Operation::Block(_) | Operation::Unblock => Feature::Block,
            };
            capabilities.require(algorithm, feature)
        });
        supported.map(|()| route).map_err(|error| {
            let clock = if self.clock.is_some() {
                ", without a clock of one's own"
            } else {
                ""
            };
            StoreError::unsupported(format!(
                "{}: choose RedisMode::Scripts{clock}",
                error.message()
            ))
        })
    }
}

//! [`Route`]: the way a request is decided, by the mode of the store: scripts, transactions or
//! redis-cell.

use super::errors::unsupported;
use super::redis_cell;
use super::scripts::Operation;
use super::settings::StoreSettings;
use crate::error::StoreError;
use crate::rule::{Algorithm, PlainCommands};
use crate::store::{Capabilities, Feature, Request};

/// The way a request is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Script,
    /// Transactions, on a log or on a counter.
    Plain(PlainCommands),
    /// `CL.THROTTLE`.
    RedisCell,
}

impl Route {
    const ALL: [Self; 4] = [
        Self::Plain(PlainCommands::Log),
        Self::Plain(PlainCommands::Counter),
        Self::RedisCell,
        Self::Script,
    ];

    /// The suffix of stored keys: each route keeps a state of its own. No rendered key ends with
    /// one of these.
    fn suffix(self) -> &'static [u8] {
        match self {
            Self::Script => b"",
            Self::Plain(PlainCommands::Log) => b"%log",
            Self::Plain(PlainCommands::Counter) => b"%plain",
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
}

impl StoreSettings {
    pub(super) fn capabilities(&self) -> Capabilities {
        use Feature::{Keys, Limits, Refund};
        let mut all = Capabilities::none();
        for &algorithm in Algorithm::ALL {
            let row = algorithm.row();
            let features: &[Feature] = if self.mode.has_redis_cell() && row.redis_cell {
                // The command does not declare its key, so a node of a cluster does not redirect
                // it.
                if self.clock.is_some() || self.is_cluster() {
                    continue;
                }
                &[Keys]
            } else if self.mode.runs_scripts() {
                all = all.with_all(algorithm);
                continue;
            } else {
                match row.commands {
                    Some(PlainCommands::Log) => &[Limits, Refund, Keys],
                    // The expiry of the key ends its window, by the server's clock.
                    Some(PlainCommands::Counter) if self.clock.is_none() => &[Keys],
                    _ => continue,
                }
            };
            all = all.with(algorithm, features);
        }
        all
    }

    /// The way to carry out an operation.
    ///
    /// # Errors
    ///
    /// `Unsupported`; the message says what to choose instead.
    pub(super) fn route(
        &self,
        operation: Operation,
        request: &Request<'_>,
    ) -> Result<Route, StoreError> {
        let row = request.algorithm().row();
        // Each unit of cost is written by itself: a script that wrote 2⁵² of them would never end.
        if row.is_log && request.cost() > Algorithm::MOST_IN_LOG {
            let (cost, most) = (request.cost(), Algorithm::MOST_IN_LOG);
            return unsupported(format!(
                "a call of cost {cost} is above {most}, the most that a sliding window takes"
            ));
        }
        let by_redis_cell = self.mode.has_redis_cell() && row.redis_cell;
        if self.mode.runs_scripts() && !by_redis_cell {
            return Ok(Route::Script);
        }
        self.supports(operation, request).map_err(|error| {
            let clock = if self.clock.is_some() {
                ", without a clock of one's own"
            } else {
                ""
            };
            StoreError::unsupported(format!(
                "{}: choose RedisMode::Scripts{clock}",
                error.message()
            ))
        })?;
        match row.commands {
            Some(commands) if !by_redis_cell => Ok(Route::Plain(commands)),
            _ => Ok(Route::RedisCell),
        }
    }

    /// Checks that a route other than scripts can carry out the operation.
    fn supports(&self, operation: Operation, request: &Request<'_>) -> Result<(), StoreError> {
        let (capabilities, algorithm) = (self.capabilities(), request.algorithm());
        capabilities.supports(request)?;
        match operation {
            Operation::Acquire | Operation::Peek => Ok(()),
            Operation::Refund(_) => capabilities.require(algorithm, Feature::Refund),
            Operation::Settle(..) => capabilities.require(algorithm, Feature::Reserve),
            Operation::Offend | Operation::Block(_) | Operation::Unblock => {
                capabilities.require(algorithm, Feature::Block)
            }
        }?;
        if self.mode.has_redis_cell() && algorithm.row().redis_cell {
            redis_cell::supports(request)
        } else {
            Ok(())
        }
    }
}

//! [`Route`]: what decides a request: a script, or, where the mode says so, transactions or
//! redis-cell.

use std::borrow::Cow;

use super::errors::unsupported;
use super::mode::RedisMode;
use super::scripts::Operation;
use super::{redis_cell, transactions};
use crate::error::StoreError;
use crate::rule::{Algorithm, PlainCommands};
use crate::store::{Capabilities, Feature, Request};

/// The settings by which requests are routed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteSettings {
    pub(crate) mode: RedisMode,
    /// The servers are a cluster.
    pub(crate) cluster: bool,
    /// The time is the caller's, and not the server's.
    pub(crate) own_clock: bool,
}

/// What decides a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Script,
    /// Transactions on the log.
    Log,
    /// A transaction on a counter that expires.
    Counter,
    /// `CL.THROTTLE`.
    RedisCell,
}

/// How several requests are decided together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupRoute {
    /// By one script.
    Script,
    /// One after the other, and given back if one refuses.
    Each,
}

/// The ends of keys that are not kept by scripts. No rendered key ends like this.
const SUFFIXES: [&[u8]; 3] = [transactions::PLAIN, redis_cell::CELL, redis_cell::CELL_HEX];

impl Route {
    /// The key as stored.
    pub(crate) fn key<'a>(self, request: &Request<'a>) -> Cow<'a, [u8]> {
        match self {
            Self::Script | Self::Log => Cow::Borrowed(request.key()),
            Self::Counter => Cow::Owned(transactions::counter_key(request)),
            Self::RedisCell => Cow::Owned(redis_cell::key(request)),
        }
    }

    /// The key of a request by the key as stored; `None` for a key of another route.
    pub(crate) fn key_of(self, mut stored: Vec<u8>) -> Option<Vec<u8>> {
        let suffix = SUFFIXES.into_iter().find(|suffix| stored.ends_with(suffix)).unwrap_or_default();
        let own = match self {
            Self::Script | Self::Log => &[][..],
            Self::Counter => transactions::PLAIN,
            Self::RedisCell => redis_cell::CELL,
        };
        stored.truncate(stored.len() - suffix.len());
        (suffix == own).then_some(stored)
    }

    /// # Errors
    ///
    /// `Unsupported` if this route cannot carry the operation out.
    pub(crate) fn offers(self, operation: Operation) -> Result<(), StoreError> {
        use Operation::{Acquire, Block, Peek, Refund, Settle, Unblock};
        match (self, operation) {
            (Self::Script, _)
            | (_, Acquire | Peek)
            | (Self::Log | Self::Counter, Refund(_))
            | (Self::Log, Block(_) | Unblock) => Ok(()),
            (Self::RedisCell, _) => {
                unsupported("CL.THROTTLE can neither give back nor block: choose RedisMode::Scripts")
            }
            (_, Settle(..)) => {
                unsupported("without scripts no cost can be known afterwards: choose RedisMode::Scripts")
            }
            (Self::Counter, _) => unsupported("without scripts this cannot be done: choose RedisMode::Scripts"),
        }
    }
}

impl RouteSettings {
    pub(crate) fn capabilities(self) -> Capabilities {
        use Feature::{Block, GrowingBlock, Keys, Limits, Refund};
        let mut all = Capabilities::none();
        for &algorithm in Algorithm::ALL {
            let row = algorithm.row();
            let features: &[Feature] = if self.mode.has_redis_cell() && row.redis_cell {
                if self.own_clock || self.cluster {
                    continue;
                }
                &[Keys]
            } else if self.mode.runs_scripts() {
                Feature::ALL
            } else {
                match row.commands {
                    Some(PlainCommands::Log) => &[Limits, Refund, Block, GrowingBlock, Keys],
                    // Such a counter goes by the server's clock.
                    Some(PlainCommands::Counter) if !self.own_clock => &[Refund, Keys],
                    _ => continue,
                }
            };
            all = all.with(algorithm, features);
        }
        all
    }

    /// What decides the request.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with what to choose instead.
    pub(crate) fn route(self, request: &Request<'_>) -> Result<Route, StoreError> {
        let row = request.algorithm().row();
        if self.mode.has_redis_cell() && row.redis_cell {
            // The module does not say which key it uses, so no node says that another one has it.
            if self.cluster {
                return unsupported(
                    "CL.THROTTLE does not follow slots that move in a cluster: choose RedisMode::Scripts",
                );
            }
            return redis_cell::supports(request, self.own_clock).map(|()| Route::RedisCell);
        }
        // Each unit of cost is written by itself: a script that wrote 2⁵² of them would never end.
        if row.is_log && request.cost() > Algorithm::MOST_IN_LOG {
            let (cost, most) = (request.cost(), Algorithm::MOST_IN_LOG);
            return unsupported(format!("a call of cost {cost} is above {most}, the most that a sliding window takes"));
        }
        if self.mode.runs_scripts() {
            return Ok(Route::Script);
        }
        match row.commands {
            Some(PlainCommands::Log) => transactions::supports_log(request).map(|()| Route::Log),
            Some(PlainCommands::Counter) => {
                transactions::supports_counter(request, self.own_clock).map(|()| Route::Counter)
            }
            None => {
                let others = Algorithm::ALL.iter().map(|algorithm| algorithm.row());
                let others: Vec<_> = others.filter(|row| row.commands.is_some()).map(|row| row.name).collect();
                unsupported(format!(
                    "on Redis, {:?} needs scripts: choose RedisMode::Scripts, or {}",
                    request.algorithm(),
                    others.join(" or ")
                ))
            }
        }
    }

    /// How several requests are decided together, if their keys are on one server.
    ///
    /// # Errors
    ///
    /// `Unsupported` if one of the requests is, or is of a sort that cannot be given back.
    pub(crate) fn group(self, requests: &[Request<'_>]) -> Result<GroupRoute, StoreError> {
        let routes = requests.iter().map(|request| self.route(request)).collect::<Result<Vec<_>, _>>()?;
        if routes.iter().all(|route| *route == Route::Script) {
            return Ok(GroupRoute::Script);
        }
        if routes.len() > 1 && routes.contains(&Route::RedisCell) {
            return unsupported(
                "CL.THROTTLE decides on one key alone: choose RedisMode::Scripts, or do not stack the rule",
            );
        }
        Ok(GroupRoute::Each)
    }
}

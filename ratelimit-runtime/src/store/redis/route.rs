//! Which route a request takes: a script, or, where the mode says so, transactions or redis-cell.

use std::borrow::Cow;

use super::errors::unsupported;
use super::mode::RedisMode;
use super::scripts::layout::LogLayout;
use super::{redis_cell, transactions};
use crate::error::StoreError;
use crate::rule::{Algorithm, PlainCommands};
use crate::store::{Capabilities, Feature, Request};

/// What decides on the route of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) mode: RedisMode,
    /// The servers are a cluster.
    pub(super) cluster: bool,
    /// The time is the caller's, and not the server's.
    pub(super) own_clock: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Script,
    /// The log as a sorted set, in transactions.
    LogCommands,
    /// A counter that expires.
    CounterCommands,
    /// `CL.THROTTLE`.
    RedisCell,
}

/// How several requests are decided together.
pub(super) enum GroupRoute {
    /// By one script.
    Script,
    /// In one transaction.
    Logs,
    /// One after the other, and given back if one refuses.
    Each,
}

impl Route {
    /// The key as stored.
    pub(super) fn key<'a>(self, request: &Request<'a>) -> Cow<'a, [u8]> {
        match self {
            Self::Script | Self::LogCommands => Cow::Borrowed(request.key()),
            Self::CounterCommands => Cow::Owned(transactions::counter_key(request)),
            Self::RedisCell => Cow::Owned(redis_cell::key(request)),
        }
    }
}

/// Behind the keys that something else than the scripts keeps. No rendered key ends like this.
const FORMS: [&[u8]; 3] = [transactions::PLAIN, redis_cell::CELL, redis_cell::CELL_HEX];

impl Route {
    /// The key of a request by the key as stored; none for what another route keeps.
    pub(super) fn key_of(self, mut stored: Vec<u8>) -> Option<Vec<u8>> {
        let form = FORMS.into_iter().find(|form| stored.ends_with(form)).unwrap_or_default();
        let own = match self {
            Self::Script | Self::LogCommands => &[][..],
            Self::CounterCommands => transactions::PLAIN,
            Self::RedisCell => redis_cell::CELL,
        };
        stored.truncate(stored.len() - form.len());
        (form == own).then_some(stored)
    }
}

impl Settings {
    pub(super) fn capabilities(self) -> Capabilities {
        use Feature::{ActualCost, Block, GrowingBlock, Keys, Limits, Refund, Reserve, Together};
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
                    Some(PlainCommands::Log) => &[Limits, Refund, Block, GrowingBlock, Together, Keys],
                    // Such a counter goes by the server's clock.
                    Some(PlainCommands::Counter) if !self.own_clock => &[Refund, Keys],
                    _ => continue,
                }
            };
            all = all.with(algorithm, features).without(algorithm, Feature::Calendar);
            if row.is_log && self.mode.log_layout() == Some(LogLayout::Zset) {
                all = all.without(algorithm, Reserve).without(algorithm, ActualCost);
            }
        }
        all
    }

    /// # Errors
    ///
    /// `Unsupported`, with what to choose instead.
    pub(super) fn route(self, request: &Request<'_>) -> Result<Route, StoreError> {
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
        if self.mode.runs_scripts() {
            if row.is_log && self.mode.log_layout() == Some(LogLayout::Zset) {
                transactions::supports_log(request, "LogLayout::Ring")?;
            }
            return Ok(Route::Script);
        }
        match row.commands {
            Some(PlainCommands::Log) => {
                transactions::supports_log(request, "RedisMode::Scripts").map(|()| Route::LogCommands)
            }
            Some(PlainCommands::Counter) => {
                transactions::supports_counter(request, self.own_clock).map(|()| Route::CounterCommands)
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

    /// How several requests are decided together.
    ///
    /// # Errors
    ///
    /// `Unsupported` if one of the requests is, or is of a sort that cannot be given back.
    pub(super) fn group(self, requests: &[Request<'_>]) -> Result<GroupRoute, StoreError> {
        let mut routes = Vec::with_capacity(requests.len());
        for request in requests {
            routes.push(self.route(request)?);
        }
        if routes.iter().all(|route| *route == Route::Script) {
            return Ok(GroupRoute::Script);
        }
        if routes.len() > 1 && routes.contains(&Route::RedisCell) {
            return unsupported(
                "CL.THROTTLE decides on one key alone: choose RedisMode::Scripts, or do not stack the rule",
            );
        }
        let mut keys: Vec<&[u8]> = requests.iter().map(Request::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let distinct = keys.len() == routes.len();
        let are_logs = routes.iter().all(|route| *route == Route::LogCommands);
        Ok(if distinct && are_logs { GroupRoute::Logs } else { GroupRoute::Each })
    }
}

//! Which route a request takes: a script, or, where scripts are not to be used, plain commands or
//! redis-cell.

use std::borrow::Cow;

use super::scripts::layout::LogLayout;
use super::{redis_cell, transactions};
use crate::error::StoreError;
use crate::rule::{Algorithm, PlainCommands};
use crate::store::{Capabilities, Feature, Request};

/// What a store is to use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) scripts: bool,
    /// The module redis-cell.
    pub(super) redis_cell: bool,
    /// The servers are a cluster.
    pub(super) cluster: bool,
    pub(super) log_layout: Option<LogLayout>,
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

/// A member each has to be written at once.
const LARGEST_COST: u64 = 1_000;

impl Settings {
    pub(super) fn capabilities(self, own_clock: bool) -> Capabilities {
        use Feature::{Block, Keys, Limits, Refund, Reserve, Together};
        let mut all = Capabilities::none();
        for &algorithm in Algorithm::ALL {
            let row = algorithm.row();
            let features: &[Feature] = if self.redis_cell && row.redis_cell {
                if own_clock || self.cluster {
                    continue;
                }
                &[Keys]
            } else if self.scripts {
                Feature::ALL
            } else {
                match row.commands {
                    Some(PlainCommands::Log) if self.log_layout != Some(LogLayout::Ring) => {
                        &[Limits, Refund, Block, Together, Keys]
                    }
                    // Such a counter goes by the server's clock.
                    Some(PlainCommands::Counter) if !own_clock => &[Refund, Keys],
                    _ => continue,
                }
            };
            all = all.with(algorithm, features);
            if row.is_log && self.log_layout == Some(LogLayout::Zset) {
                all = all.without(algorithm, Reserve);
            }
        }
        all
    }

    /// # Errors
    ///
    /// `Unsupported`, with what to allow or to choose instead.
    pub(super) fn route(self, request: &Request<'_>, own_clock: bool) -> Result<Route, StoreError> {
        let row = request.algorithm().row();
        if self.redis_cell && row.redis_cell {
            // The module does not say which key it uses, so no node says that another one has it.
            if self.cluster {
                return unsupported("CL.THROTTLE does not follow slots that move in a cluster: leave redis_cell off");
            }
            return throttled(request, own_clock).map(|()| Route::RedisCell);
        }
        if self.scripts {
            if row.is_log && self.log_layout == Some(LogLayout::Zset) {
                in_a_zset(request, "LogLayout::Ring")?;
            }
            return Ok(Route::Script);
        }
        match row.commands {
            Some(PlainCommands::Log) if self.log_layout == Some(LogLayout::Ring) => {
                unsupported("`LogLayout::Ring` needs scripts: allow them with `RedisStore::scripts(true)`")
            }
            Some(PlainCommands::Log) => in_a_zset(request, "scripts(true)").map(|()| Route::LogCommands),
            Some(PlainCommands::Counter) => counted(request, own_clock).map(|()| Route::CounterCommands),
            None => {
                let others = Algorithm::ALL.iter().map(|algorithm| algorithm.row());
                let others: Vec<_> = others.filter(|row| row.commands.is_some()).map(|row| row.name).collect();
                unsupported(format!(
                    "on Redis, {:?} needs scripts: allow them with `RedisStore::scripts(true)`, or choose {}",
                    request.algorithm(),
                    others.join(" or ")
                ))
            }
        }
    }
}

impl Settings {
    /// # Errors
    ///
    /// `Unsupported` if one of the requests is, or is of a sort that cannot be given back.
    pub(super) fn group(self, requests: &[Request<'_>], own_clock: bool) -> Result<GroupRoute, StoreError> {
        let mut routes = Vec::with_capacity(requests.len());
        for request in requests {
            routes.push(self.route(request, own_clock)?);
        }
        if routes.iter().all(|route| *route == Route::Script) {
            return Ok(GroupRoute::Script);
        }
        if routes.len() > 1 && routes.contains(&Route::RedisCell) {
            return unsupported("CL.THROTTLE decides on one key alone: leave redis_cell off, or do not stack the rule");
        }
        let mut keys: Vec<&[u8]> = requests.iter().map(Request::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let distinct = keys.len() == routes.len();
        Ok(if distinct && routes.iter().all(|route| *route == Route::LogCommands) {
            GroupRoute::Logs
        } else {
            GroupRoute::Each
        })
    }
}

fn in_a_zset(request: &Request<'_>, instead: &str) -> Result<(), StoreError> {
    if request.is_reservation() {
        return unsupported(format!(
            "`count` needs reservations, and a log that is a sorted set cannot tell them apart: use {instead}"
        ));
    }
    if request.cost() > LARGEST_COST {
        return unsupported(format!(
            "a call of cost {} is above {LARGEST_COST}, the most that a log as a sorted set takes: use {instead}",
            request.cost()
        ));
    }
    Ok(())
}

fn counted(request: &Request<'_>, own_clock: bool) -> Result<(), StoreError> {
    if own_clock {
        unsupported(
            "a fixed window without scripts goes by the server's clock: allow scripts, or choose sliding_window",
        )
    } else if request.limits().len() > 1 {
        unsupported("a fixed window without scripts has one limit: allow scripts, or choose sliding_window")
    } else if request.is_reservation() {
        unsupported("`count` needs reservations, and without scripts there are none: use `RedisStore::scripts(true)`")
    } else if !request.block().is_zero() {
        unsupported("a fixed window without scripts has no blocks: allow scripts, or choose sliding_window")
    } else {
        Ok(())
    }
}

/// The module counts in whole seconds, and takes a unit of cost for whole nanoseconds.
fn throttled(request: &Request<'_>, own_clock: bool) -> Result<(), StoreError> {
    let [limit] = request.limits() else {
        return unsupported("CL.THROTTLE keeps one limit a key: leave redis_cell off, or give the rule one limit");
    };
    let (max, window) = (limit.max().max(1), limit.window_us());
    if window % 1_000_000 != 0 {
        unsupported("CL.THROTTLE takes windows of whole seconds: leave redis_cell off, or change the window")
    } else if window / max < 1000 && window % max != 0 || window < max {
        unsupported("CL.THROTTLE is inexact at rates above 1,000 a second: leave redis_cell off, or lower `max`")
    } else if request.is_reservation() || !request.block().is_zero() {
        unsupported("CL.THROTTLE has neither reservations (`count`) nor blocks (`block`): leave redis_cell off")
    } else if own_clock {
        unsupported("CL.THROTTLE goes by the server's clock: leave redis_cell off")
    } else {
        Ok(())
    }
}

pub(super) fn unsupported<T>(message: impl Into<Cow<'static, str>>) -> Result<T, StoreError> {
    Err(StoreError::unsupported(message))
}

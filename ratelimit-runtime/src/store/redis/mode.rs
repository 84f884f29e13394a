//! [`RedisMode`]: with which commands a store decides.

/// With which commands a [`RedisStore`](super::RedisStore) decides: set by
/// [`RedisStore::mode`](super::RedisStore::mode).
///
/// Decisions are as atomic and as exact in each. A request that a mode cannot decide is answered
/// with [`Unsupported`](crate::store::StoreErrorKind::Unsupported), and a limiter with a policy
/// that needs more cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RedisMode {
    /// Scripts, for every algorithm.
    #[default]
    Scripts,
    /// Transactions: no `EVAL` and no `EVALSHA` is ever sent. These are left:
    ///
    /// - `sliding_window`, with several limits and costs up to 1,000, as a sorted set in optimistic
    ///   transactions: one round trip for a refusal, two for an admission, and another two each time
    ///   another process was faster. They run on up to 8 connections of their own per server and
    ///   runtime. Stacked rules are decided one after the other, and what a refused call was charged
    ///   is given back.
    /// - `fixed_window`, with one limit and any cost, as a counter, in one round trip. A window
    ///   ends on a whole millisecond of the server's clock. There are no refunds, so such a rule is
    ///   not stacked.
    ///
    /// There are no blocks. Each has keys of its own, which processes with scripts do not share.
    ///
    /// The user needs `MULTI`, `EXEC`, `WATCH`, `UNWATCH`, `TIME`, `PING`, `ROLE`, `PEXPIRE`,
    /// `UNLINK`, `ZADD`, `ZCOUNT`, `ZSCORE`, `ZRANGE`, `ZREM`, `ZREMRANGEBYSCORE`; for fixed windows
    /// `SET`, `GET`, `BITFIELD`, `PTTL`.
    Transactions,
    /// `leaky_bucket` by `CL.THROTTLE`, the command of the module redis-cell, which the server has
    /// to have loaded; all else by scripts.
    ///
    /// The module keeps one limit per key, of whole seconds, on its own keys, and has no refunds,
    /// reservations or blocks; `peek` asks it for a quantity of 0. It tells waits in whole seconds:
    /// `retry_after` is up to a second too long, and never too short. Not in a cluster: the module
    /// does not say which key it uses, so nodes do not say that a slot has moved.
    RedisCell,
}

impl RedisMode {
    pub(super) fn runs_scripts(self) -> bool {
        self != Self::Transactions
    }

    pub(super) fn has_redis_cell(self) -> bool {
        self == Self::RedisCell
    }
}

//! [`RedisMode`]: the commands by which a store decides.

/// The commands by which a [`RedisStore`](crate::RedisStore) decides, set by
/// [`RedisStore::mode`](crate::RedisStore::mode).
///
/// Decisions are equally atomic and exact in every mode. A request that the mode cannot decide
/// fails with [`Unsupported`](crate::store::StoreErrorKind::Unsupported), and a limiter with such a
/// policy cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RedisMode {
    /// Scripts, for every algorithm.
    #[default]
    Scripts,
    /// Transactions: no `EVAL` and no `EVALSHA` is sent, but for an `EVAL` that does nothing where
    /// the user may not send `ROLE`. Two algorithms remain:
    ///
    /// - `sliding_window`, with several limits and costs up to 1,000, as a sorted set in optimistic
    ///   transactions: one round trip for a refusal (two if its cost is above 1), two for an
    ///   admission, and two more each time another caller has changed the key in between. A unit
    ///   becomes free a quarter of a round trip and a millisecond late, most often; an admission
    ///   that arrives later than that is given back and repeated, which takes four round trips.
    ///   Transactions run on up to 8 more connections per server and runtime.
    /// - `fixed_window`, with one limit and any cost, as a counter, in one round trip. A window
    ///   ends on a whole millisecond of the server's clock. There are no refunds.
    ///
    /// Stacked rules are all looked at before one is charged; if calls race for the last unit,
    /// charges of a refused call are refunded. A stack has at most one rule with `fixed_window`,
    /// which is charged last.
    ///
    /// There are no blocks. Algorithms have their own keys, which processes with scripts do not
    /// share.
    ///
    /// The user needs `MULTI`, `EXEC`, `WATCH`, `UNWATCH`, `TIME`, `PING`, `ROLE`, `PEXPIRE`,
    /// `UNLINK`, `ZADD`, `ZCOUNT`, `ZSCORE`, `ZRANGE`, `ZREM`, `ZREMRANGEBYSCORE`; for fixed
    /// windows `SET`, `GET`, `BITFIELD`, `PTTL`.
    Transactions,
    /// `leaky_bucket` by `CL.THROTTLE`, the command of the module redis-cell, which the server
    /// must have loaded; all other algorithms by scripts.
    ///
    /// The module keeps one limit per key, of whole seconds, on its own keys, and has no refunds,
    /// reservations or blocks; `peek` sends a quantity of 0. The module replies in whole seconds:
    /// `retry_after` is up to a second too long, and never too short. Not for a cluster: the module
    /// does not declare its key, so nodes do not redirect a call whose slot has moved.
    RedisCell,
}

impl RedisMode {
    pub(crate) fn runs_scripts(self) -> bool {
        self != Self::Transactions
    }
}

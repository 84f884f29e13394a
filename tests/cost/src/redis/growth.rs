//! [`Growth`]: what the dearest calls on a ring cost a redis-server, those that write it anew or
//! add up what it holds.

use std::fmt;

use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, LogLayout, RedisMode, RedisStore, Store};

use super::server::CountedServer;

/// An admission that finds a ring in some state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adding {
    /// Full with 512 entries: from then on it has sums.
    ToFull,
    /// The same, and one of them has been refunded.
    ToRefunded,
    /// The same, and every other one has been refunded.
    ToHalfRefunded,
    /// One slot is left of a block, whose sums are due.
    ToBlock,
    /// Full with 512 entries, and of a cost that takes wider slots.
    ToNarrow,
}

impl Adding {
    pub const ALL: [Self; 5] = [Self::ToFull, Self::ToRefunded, Self::ToHalfRefunded, Self::ToBlock, Self::ToNarrow];

    /// How many entries there are before.
    fn entries(self) -> usize {
        if self == Self::ToBlock { 767 } else { 512 }
    }

    /// What the call costs that is counted.
    fn cost(self) -> u64 {
        if self == Self::ToNarrow { 1 << 23 } else { 1 }
    }

    fn is_refunded(self, entry: usize) -> bool {
        match self {
            Self::ToFull | Self::ToBlock | Self::ToNarrow => false,
            Self::ToRefunded => entry == 100,
            // The last one stays: what is refunded at the end takes no slot.
            Self::ToHalfRefunded => entry.is_multiple_of(2),
        }
    }
}

/// The instructions of one call each.
#[derive(Debug)]
pub struct Growth(pub Vec<(Adding, u64)>);

impl Growth {
    /// Measures them.
    ///
    /// # Panics
    ///
    /// If an entry is not admitted, or cannot be refunded.
    pub fn measure(server: &mut CountedServer) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = RedisStore::new(&server.url()).unwrap().mode(RedisMode::ScriptsWith(LogLayout::Ring));
        runtime.block_on(store.ready()).unwrap();
        let limits = [Limit::per_hour(1 << 24)];
        let request = Request::new(b"ring", Algorithm::SlidingWindow, &limits);
        let add = |cost| {
            let verdict = runtime.block_on(store.acquire(request.with_cost(cost))).unwrap();
            assert!(verdict.allowed);
            verdict.ticket
        };
        let counted = Adding::ALL.map(|adding| {
            server.empty();
            let tickets: Vec<u64> = (0..adding.entries()).map(|_| add(1)).collect();
            for (_, ticket) in tickets.into_iter().enumerate().filter(|(entry, _)| adding.is_refunded(*entry)) {
                assert!(runtime.block_on(store.refund(request, ticket)).unwrap());
            }
            (adding, server.instructions(|| _ = add(adding.cost())))
        });
        Self(counted.into())
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server instructions of one admission to a ring")?;
        self.0.iter().try_for_each(|(adding, count)| write!(f, "\n{:<28} {count:>11}", format!("{adding:?}")))
    }
}

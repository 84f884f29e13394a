//! A stack of requests on several keys: all of them are charged, or none.

use std::sync::MutexGuard;

use super::shard::Shard;
use crate::store::{Request, Verdict};

/// One request of a stack, and the position of its shard among the locked ones.
pub(super) struct StackPart<'a> {
    pub(super) request: Request<'a>,
    /// The cost of the requests before it on its key.
    pub(super) ahead: u64,
    pub(super) hash: u64,
    pub(super) shard: usize,
}

impl<'a> StackPart<'a> {
    pub(super) fn has_key(&self, hash: u64, request: &Request<'_>) -> bool {
        self.hash == hash && self.request.key() == request.key()
    }

    /// The request with the cost of those before it, because a key that stands twice has to have
    /// room for both.
    fn with_ahead(&self) -> Request<'a> {
        Request {
            cost: self.ahead.saturating_add(self.request.cost()),
            ..self.request
        }
    }
}

/// Decides a stack under the locks of all its shards: all are looked at before one is charged.
pub(super) fn decide(
    shards: &mut [MutexGuard<'_, Shard>],
    parts: &[StackPart<'_>],
    now: u64,
) -> Vec<Verdict> {
    let looked_at = parts.iter().map(|part| {
        shard_of(shards, part).map_or(Verdict::refused(), |shard| {
            shard.peek(&part.with_ahead(), part.hash, now)
        })
    });
    let mut verdicts: Vec<Verdict> = looked_at.collect();
    let refusing = verdicts.iter().filter(|verdict| !verdict.allowed).count();
    let admitted = refusing == 0;
    let mut charged = 0;
    for (part, verdict) in parts.iter().zip(&mut verdicts) {
        // Only the one that alone refuses sets its block: nobody blocks another's key by calls that
        // his own limit refuses.
        if (admitted || (refusing == 1 && !verdict.allowed))
            && let Some(shard) = shard_of(shards, part)
        {
            let request = if admitted {
                part.request
            } else {
                part.with_ahead()
            };
            *verdict = shard.acquire(&request, part.hash, now);
        }
        if admitted && !verdict.allowed {
            break;
        }
        charged += 1;
    }
    if admitted && charged < parts.len() {
        // Two keys share an overflow bucket, which had room for one charge.
        for (part, verdict) in parts.iter().zip(&verdicts).take(charged).rev() {
            if let Some(shard) = shard_of(shards, part) {
                shard.give_back(&part.request, part.hash, verdict.ticket, now);
            }
        }
    }
    verdicts
}

fn shard_of<'a>(
    shards: &'a mut [MutexGuard<'_, Shard>],
    part: &StackPart<'_>,
) -> Option<&'a mut Shard> {
    let shard = shards.get_mut(part.shard);
    debug_assert!(shard.is_some(), "the shards of all parts are locked");
    shard.map(|shard| &mut **shard)
}

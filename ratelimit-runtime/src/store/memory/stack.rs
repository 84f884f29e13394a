//! A stack of requests on several keys: all of them are charged, or none.

use std::sync::MutexGuard;

use super::shard::Shard;
use crate::store::{Request, Verdict};

/// One request of a stack, and the position of its shard among the locked ones.
pub(super) struct StackPart<'a> {
    pub(super) request: Request<'a>,
    pub(super) hash: u64,
    pub(super) shard: usize,
}

/// Decides a stack under the locks of all its shards: all are looked at before one is charged.
pub(super) fn decide(
    shards: &mut [MutexGuard<'_, Shard>],
    parts: &[StackPart<'_>],
    now: u64,
) -> Vec<Verdict> {
    let looked_at = parts.iter().enumerate().map(|(at, part)| {
        shard_of(shards, part).map_or(Verdict::refused(), |shard| {
            shard.peek(&with_costs_before(parts, at, part), part.hash, now)
        })
    });
    let mut verdicts: Vec<Verdict> = looked_at.collect();
    let refusing = verdicts.iter().filter(|verdict| !verdict.allowed).count();
    let admitted = refusing == 0;
    let mut charged = 0;
    for (at, (part, verdict)) in parts.iter().zip(&mut verdicts).enumerate() {
        // Only the one that alone refuses sets its block: nobody blocks another's key by calls that
        // his own limit refuses.
        if (admitted || (refusing == 1 && !verdict.allowed))
            && let Some(shard) = shard_of(shards, part)
        {
            let request = if admitted {
                part.request
            } else {
                with_costs_before(parts, at, part)
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

/// The request of a part with the costs of the parts before it on its key, because a key that
/// stands twice has to have room for both.
fn with_costs_before<'a>(parts: &[StackPart<'a>], at: usize, part: &StackPart<'a>) -> Request<'a> {
    let before = parts.iter().take(at);
    let same = before.filter(|other| other.request.key() == part.request.key());
    let costs = same.map(|other| other.request.cost()).sum::<u64>();
    Request {
        cost: costs.saturating_add(part.request.cost()),
        ..part.request
    }
}

fn shard_of<'a>(
    shards: &'a mut [MutexGuard<'_, Shard>],
    part: &StackPart<'_>,
) -> Option<&'a mut Shard> {
    let shard = shards.get_mut(part.shard);
    debug_assert!(shard.is_some(), "the shards of all parts are locked");
    shard.map(|shard| &mut **shard)
}

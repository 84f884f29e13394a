//! A stack of requests on several keys: all of them are charged, or none. The locks of all their
//! shards are held, so that nobody sees a part of it.

use std::sync::MutexGuard;

use smallvec::SmallVec;

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
    fn key(&self) -> (u64, &'a [u8]) {
        (self.hash, self.request.key())
    }

    /// Sets `ahead` of each part: the cost of earlier parts with its key.
    pub(super) fn add_up(parts: &mut [Self]) {
        let mut by_key: SmallVec<[&mut Self; 4]> = parts.iter_mut().collect();
        // In order of their keys, and those of a key in their own.
        by_key.sort_by_key(|part| part.key());
        let mut before = None;
        for part in by_key {
            let same = before.filter(|(key, _)| *key == part.key());
            part.ahead = same.map_or(0, |(_, cost)| cost);
            before = Some((part.key(), part.ahead.saturating_add(part.request.cost())));
        }
    }

    /// The request with the cost of earlier parts added: a key that a stack has twice needs room
    /// for both.
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
    let looked_at = parts
        .iter()
        .map(|part| shard_of(shards, part).peek(&part.with_ahead(), part.hash, now));
    let mut verdicts: Vec<Verdict> = looked_at.collect();
    let each = parts.iter().zip(&mut verdicts);
    let mut refusing = each.filter(|(_, verdict)| !verdict.allowed).rev();
    if let Some((part, verdict)) = refusing.next() {
        // Only a key that alone refuses is blocked: else callers whose own limit refuses could
        // block the keys of others. Of a key that stands twice, the last part asks for all.
        if refusing.all(|(other, _)| other.key() == part.key()) {
            *verdict = shard_of(shards, part).offend(&part.with_ahead(), part.hash, now);
        }
        return verdicts;
    }
    for (index, (part, verdict)) in parts.iter().zip(&mut verdicts).enumerate() {
        *verdict = shard_of(shards, part).acquire(&part.request, part.hash, now);
        if !verdict.allowed {
            // Two keys share an overflow bucket, which had room for one charge.
            for (part, verdict) in parts.iter().zip(&verdicts).take(index).rev() {
                shard_of(shards, part).give_back(&part.request, part.hash, verdict.ticket, now);
            }
            break;
        }
    }
    verdicts
}

fn shard_of<'a>(shards: &'a mut [MutexGuard<'_, Shard>], part: &StackPart<'_>) -> &'a mut Shard {
    #[allow(
        clippy::indexing_slicing,
        reason = "the shards of all parts are locked"
    )]
    &mut shards[part.shard]
}

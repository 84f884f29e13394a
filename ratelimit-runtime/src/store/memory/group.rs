//! A stack of requests on several keys: all of them are charged, or none.

use std::sync::MutexGuard;

use super::shard::Shard;
use crate::store::{Request, Verdict};

/// One request of a stack, and the position of its shard among the locked ones.
pub(super) struct Member<'a> {
    pub(super) request: Request<'a>,
    pub(super) hash: u64,
    pub(super) shard: usize,
}

/// Decides a stack under the locks of all its shards: all are looked at before one is charged.
pub(super) fn decide(
    shards: &mut [MutexGuard<'_, Shard>],
    members: &[Member<'_>],
    now: u64,
) -> Vec<Verdict> {
    let looked_at = members.iter().enumerate().map(|(at, member)| {
        shard_of(shards, member).map_or(Verdict::refused(), |shard| {
            shard.peek(&with_those_before(members, at, member), member.hash, now)
        })
    });
    let mut verdicts: Vec<Verdict> = looked_at.collect();
    let refusing = verdicts.iter().filter(|verdict| !verdict.allowed).count();
    let admitted = refusing == 0;
    let mut charged = 0;
    for (at, (member, verdict)) in members.iter().zip(&mut verdicts).enumerate() {
        // Only the one that alone refuses sets its block: nobody blocks another's key by calls that
        // his own limit refuses.
        if (admitted || (refusing == 1 && !verdict.allowed))
            && let Some(shard) = shard_of(shards, member)
        {
            let request = if admitted {
                member.request
            } else {
                with_those_before(members, at, member)
            };
            *verdict = shard.acquire(&request, member.hash, now);
        }
        if admitted && !verdict.allowed {
            break;
        }
        charged += 1;
    }
    if admitted && charged < members.len() {
        // Two keys share an overflow bucket, which had room for one charge.
        for (member, verdict) in members.iter().zip(&verdicts).take(charged).rev() {
            if let Some(shard) = shard_of(shards, member) {
                shard.give_back(&member.request, member.hash, verdict.ticket, now);
            }
        }
    }
    verdicts
}

/// The request of a member with the costs of those before it on its key, as a key that stands twice
/// has to have room for both.
fn with_those_before<'a>(members: &[Member<'a>], at: usize, member: &Member<'a>) -> Request<'a> {
    let before = members.iter().take(at);
    let same = before.filter(|other| other.request.key() == member.request.key());
    let costs = same.map(|other| other.request.cost()).sum::<u64>();
    Request {
        cost: costs.saturating_add(member.request.cost()),
        ..member.request
    }
}

fn shard_of<'a>(
    shards: &'a mut [MutexGuard<'_, Shard>],
    member: &Member<'_>,
) -> Option<&'a mut Shard> {
    let shard = shards.get_mut(member.shard);
    debug_assert!(shard.is_some(), "the shards of all members are locked");
    shard.map(|shard| &mut **shard)
}

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
    let looked_at = members.iter().map(|member| {
        shard_of(shards, member).map_or(Verdict::refused(), |shard| {
            shard.peek(&member.request, member.hash, now)
        })
    });
    let mut verdicts: Vec<Verdict> = looked_at.collect();
    let refusing = verdicts.iter().filter(|verdict| !verdict.allowed).count();
    let admitted = refusing == 0;
    let mut charged = 0;
    for (member, verdict) in members.iter().zip(&mut verdicts) {
        // Only the one that alone refuses sets its block: nobody blocks another's key by calls that
        // his own limit refuses.
        if (admitted || (refusing == 1 && !verdict.allowed))
            && let Some(shard) = shard_of(shards, member)
        {
            *verdict = shard.acquire(&member.request, member.hash, now);
        }
        if admitted && !verdict.allowed {
            break;
        }
        charged += 1;
    }
    if admitted && charged < members.len() {
        // A key stands here twice, and there was room for one charge.
        for (member, verdict) in members.iter().zip(&verdicts).take(charged).rev() {
            if let Some(shard) = shard_of(shards, member) {
                shard.give_back(&member.request, member.hash, verdict.ticket, now);
            }
        }
    }
    verdicts
}

fn shard_of<'a>(
    shards: &'a mut [MutexGuard<'_, Shard>],
    member: &Member<'_>,
) -> Option<&'a mut Shard> {
    let shard = shards.get_mut(member.shard);
    debug_assert!(shard.is_some(), "the shards of all members are locked");
    shard.map(|shard| &mut **shard)
}

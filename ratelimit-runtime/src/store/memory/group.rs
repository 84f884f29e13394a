//! Several keys in one step: all of them are charged, or none.

use std::sync::MutexGuard;

use super::shard::Shard;
use crate::store::{Request, Verdict};

/// One request of a group, with the place of its shard among the locked ones.
pub(super) struct Member<'a> {
    pub(super) request: Request<'a>,
    pub(super) hash: u64,
    pub(super) shard: usize,
}

/// Decides a group under the locks of all its shards: all are looked at before any is charged.
pub(super) fn decide(
    shards: &mut [MutexGuard<'_, Shard>],
    members: &[Member<'_>],
    now: u64,
) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = members
        .iter()
        .filter_map(|member| {
            Some(
                shards
                    .get_mut(member.shard)?
                    .peek(&member.request, member.hash, now),
            )
        })
        .collect();
    let refusing = verdicts.iter().filter(|verdict| !verdict.allowed).count();
    let admitted = refusing == 0;
    for index in 0..members.len() {
        let (Some(member), Some(verdict)) = (members.get(index), verdicts.get_mut(index)) else {
            continue;
        };
        let Some(shard) = shards.get_mut(member.shard) else {
            continue;
        };
        // Only the one that alone refuses sets its block: nobody blocks another's key by calls that
        // his own limit refuses.
        if admitted || (refusing == 1 && !verdict.allowed) {
            *verdict = shard.acquire(&member.request, member.hash, now);
        }
        if admitted && !verdict.allowed {
            // The key stands here twice, and there was room for one charge.
            for (member, verdict) in members.iter().zip(&verdicts).take(index).rev() {
                if let Some(shard) = shards.get_mut(member.shard) {
                    shard.give_back(&member.request, member.hash, verdict.ticket, now);
                }
            }
            break;
        }
    }
    verdicts
}

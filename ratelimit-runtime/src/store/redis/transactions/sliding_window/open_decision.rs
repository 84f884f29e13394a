//! [`OpenDecision`]: what is left to be asked when a decision is made, and the verdict.

use redis::{Cmd, Value};

use super::{LogState, max};
use crate::store::Verdict;
use crate::store::redis::transactions::reply;

/// A decision that lacks only how much of each limit is used, which [`Self::counts`] asks in the
/// same transaction.
pub(in crate::store::redis::transactions) struct OpenDecision<'a> {
    pub(super) state: LogState<'a>,
    pub(super) life: u64,
    pub(super) blocked_for: u64,
    pub(super) has_meta: bool,
    pub(super) ticket: u64,
}

impl OpenDecision<'_> {
    /// Whether the counts are needed. Where a limit refuses a call of 1, nothing is left of it.
    pub(in crate::store::redis::transactions) fn is_open(&self) -> bool {
        !self.state.is_refused() || self.state.request.cost() > 1
    }

    /// The commands whose replies [`verdict`](Self::verdict) takes, one for each limit.
    pub(in crate::store::redis::transactions) fn counts(&self, commands: &mut Vec<Cmd>) {
        for limit in self.state.request.limits() {
            let mut count = self.state.command("ZCOUNT");
            count.arg(format!("({}", self.state.at.saturating_sub(limit.window_us()))).arg("+inf");
            commands.push(count);
        }
    }

    pub(in crate::store::redis::transactions) fn verdict(&self, counts: &[Value]) -> Option<Verdict> {
        let LogState { request, now, at, wait, newest, logged, .. } = &self.state;
        let charged = self.ticket > 0;
        let last = if charged { *at } else { newest.map_or(0, |newest| newest.time) };
        let mut decisive: Option<(u64, u64, u64, usize)> = None;
        for (index, (limit, &wait)) in request.limits().iter().zip(wait).enumerate() {
            let live = match counts.get(index) {
                _ if *logged == 0 && !charged => 0,
                Some(count) => reply::count(count)?.saturating_sub(u64::from(self.has_meta)),
                None => max(limit),
            };
            let left = max(limit).saturating_sub(live);
            let reset = if live > 0 { (last + limit.window_us()).saturating_sub(*at) } else { 0 };
            let worse = decisive.is_none_or(|(longest, least, ..)| wait > longest || wait == longest && left < least);
            if worse {
                decisive = Some((wait, left, reset.max(wait), index));
            }
        }
        let (wait, left, reset, index) = decisive?;
        let by_the_clock = |span: u64| if span == 0 { 0 } else { (span + at - now).min(self.life) };
        let (retry, whole) = (by_the_clock(wait), by_the_clock(reset));
        let verdict = Verdict {
            allowed: wait == 0,
            limit_index: index,
            remaining: left,
            retry_after_us: retry.max(self.blocked_for),
            reset_after_us: whole.max(self.blocked_for),
            ..Verdict::admitted()
        };
        Some(if self.blocked_for > 0 {
            Verdict { allowed: false, ..verdict }.by_block_for(self.blocked_for)
        } else {
            verdict.with_ticket(self.ticket)
        })
    }
}

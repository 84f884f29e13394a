//! [`StoredLog`]: the exact sliding window without scripts. It is the sorted set that
//! `sliding_window/script.lua` keeps, decided here; both may work on one key.
//!
//! The reads depend on no clock, so they go in one call with that for the server's. Whether a limit
//! refuses follows from the one unit that has to leave before the call fits. How much is used
//! is counted by [`StoredLog::counts`] in the transaction that writes; or before, where units are
//! reserved by `count`, because these stand apart from charged ones.

use redis::{Cmd, Value, cmd, from_redis_value_ref};

use super::member::{Member, Meta};
use crate::algorithm::RESERVED_WAIT;
use crate::rule::Limit;
use crate::store::{Request, Verdict};

/// How many units that have left all windows one admission removes at most: as many as it may add.
const TRIM: i64 = 1_000;

/// The time of a decision, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub(super) now: u64,
    /// By the server's clock, and not by the caller's.
    pub(super) is_servers: bool,
}

/// One limit, and how far the log uses it.
#[derive(Debug)]
struct Standing<'a> {
    limit: &'a Limit,
    /// The charged unit that has to leave before the call fits; 0 for none.
    leaves: u64,
    /// How many units are charged, and how many are reserved, once that is known.
    used: Option<(u64, u64)>,
}

/// The state of a key, read for a request.
#[derive(Debug)]
pub(super) struct StoredLog<'a> {
    request: Request<'a>,
    time: Time,
    limits: Vec<Standing<'a>>,
    meta: Option<Meta>,
    /// The end of the last block.
    blocked_until: u64,
    /// The newest charged and reserved unit; 0 for none.
    charged: u64,
    reserved: u64,
    /// The score of the oldest member, and of the last one that an admission may remove.
    oldest: i64,
    trim: i64,
}

/// The commands whose replies [`StoredLog::of`] takes.
pub(super) fn reads(request: &Request<'_>) -> Vec<Cmd> {
    let range = |from: i64, to: i64| cmd("ZRANGE").arg(request.key()).arg(from).arg(to).arg("WITHSCORES").take();
    let by_limit = request.limits().iter().map(|limit| {
        // Counted from the newest; behind the meta member it is one further.
        let rank = i64::try_from(max(limit).saturating_sub(request.cost()) + 1).unwrap_or(i64::MAX - 1);
        range(-rank - 1, -rank)
    });
    [range(0, 0), range(-2, -1), range(TRIM - 1, TRIM - 1)].into_iter().chain(by_limit).collect()
}

fn max(limit: &Limit) -> u64 {
    limit.max().max(1)
}

/// The ticket of the last of these members, or of the one before where the log has a meta member;
/// 0 if there is none, or it is reserved.
fn charged(members: &[Member], has_meta: bool) -> u64 {
    let place = members.len().checked_sub(if has_meta { 2 } else { 1 });
    match place.and_then(|place| members.get(place)) {
        Some(Member::Unit { ticket, is_open: false }) => *ticket,
        _ => 0,
    }
}

impl Standing<'_> {
    /// How long the limit refuses because of charged units; 0 if it does not.
    fn wait_for_charged(&self, now: u64) -> u64 {
        if self.leaves == 0 { 0 } else { (self.leaves + self.limit.window_us()).saturating_sub(now) }
    }

    /// How long the limit refuses, as if all that is reserved were released soon.
    fn wait(&self, now: u64, cost: u64) -> u64 {
        match (self.wait_for_charged(now), self.used) {
            (0, Some((charged, reserved))) if reserved > 0 && charged + reserved + cost > max(self.limit) => {
                RESERVED_WAIT
            }
            (wait, _) => wait,
        }
    }
}

impl<'a> StoredLog<'a> {
    /// Takes the replies to [`reads`]; `None` if the key is not a log.
    pub(super) fn of(request: Request<'a>, time: Time, replies: &[Value]) -> Option<Self> {
        let members = replies.iter().map(Member::all_of).collect::<Option<Vec<_>>>()?;
        let [oldest, newest, nth, by_limit @ ..] = members.as_slice() else { return None };
        let meta = match newest.last() {
            Some(Member::Meta(meta)) => Some(*meta),
            _ => None,
        };
        let standing = |(limit, members): (_, &Vec<Member>)| {
            let leaves = charged(members, meta.is_some());
            Standing { limit, leaves, used: None }
        };
        Some(Self {
            request,
            time,
            limits: request.limits().iter().zip(by_limit).map(standing).collect(),
            meta,
            blocked_until: meta.map_or(0, |meta| meta.ends),
            charged: charged(newest, meta.is_some()),
            reserved: match oldest.first() {
                Some(Member::Unit { ticket, is_open: true }) => *ticket,
                _ => 0,
            },
            oldest: oldest.first().map_or(i64::MAX, |member| member.score()),
            trim: nth.first().map_or(i64::MAX, |member| member.score()),
        })
    }

    /// Whether the counts have to be known before it is decided.
    pub(super) fn has_reservations(&self) -> bool {
        self.reserved > 0
    }

    /// The commands whose replies [`count`](Self::count) takes.
    pub(super) fn counts(&self) -> Vec<Cmd> {
        let counts = self.limits.iter().flat_map(|standing| {
            let edge = self.time.now.saturating_sub(standing.limit.window_us());
            let count = |from: String, to: String| self.command("ZCOUNT").arg(from).arg(to).take();
            [count(format!("({edge}"), "+inf".to_owned()), count("-inf".to_owned(), format!("(-{edge}"))]
        });
        counts.collect()
    }

    /// Notes the units that are used before this call.
    pub(super) fn count(&mut self, replies: &[Value]) -> Option<()> {
        let beside = u64::from(self.meta.is_some());
        for (standing, [charged, reserved]) in self.limits.iter_mut().zip(replies.as_chunks::<2>().0) {
            let charged = from_redis_value_ref::<u64>(charged).ok()?.saturating_sub(beside);
            standing.used = Some((charged, from_redis_value_ref(reserved).ok()?));
        }
        Some(())
    }

    /// Whether the verdict needs the counts, and they are not known. Where a limit refuses a call
    /// of 1, nothing is left of it.
    pub(super) fn lacks_counts(&self) -> bool {
        let is_counted = self.limits.iter().all(|standing| standing.used.is_some());
        !is_counted && (self.request.cost() > 1 || !self.is_full())
    }

    fn command(&self, name: &str) -> Cmd {
        cmd(name).arg(self.request.key()).take()
    }

    fn newest_unit(&self) -> u64 {
        self.charged.max(self.reserved)
    }

    fn newest(&self) -> u64 {
        self.newest_unit().max(self.meta.unwrap_or_default().newest)
    }

    /// Whether a limit refuses, whatever is reserved.
    fn is_full(&self) -> bool {
        self.limits.iter().any(|standing| standing.wait_for_charged(self.time.now) > 0)
    }

    fn blocked_for(&self) -> u64 {
        self.blocked_until.saturating_sub(self.time.now)
    }

    pub(super) fn admits(&self) -> bool {
        let refuses = |standing: &Standing<'_>| standing.wait(self.time.now, self.request.cost()) > 0;
        self.blocked_for() == 0 && !self.limits.iter().any(refuses)
    }

    /// Adds a member for each unit; returns the first one's ticket.
    pub(super) fn charge(&self, commands: &mut Vec<Cmd>) -> u64 {
        if self.request.cost() == 0 {
            return 0;
        }
        let (horizon, now) = (self.request.horizon_us(), self.time.now);
        let edge = i64::try_from(now.saturating_sub(horizon)).unwrap_or(i64::MAX);
        if self.oldest <= edge {
            commands.push(self.command("ZREMRANGEBYSCORE").arg(-edge).arg(edge.min(self.trim)).take());
        }
        let first = now.max(self.newest() + 1);
        let last = first + self.request.cost() - 1;
        let mut add = self.command("ZADD");
        for ticket in first..=last {
            add.arg(ticket).arg(ticket);
        }
        commands.push(add);
        let meta = Meta { newest: last, ..self.lasting_meta() };
        let is_kept = meta.strikes > 0 || self.reserved > 0;
        // As the scripts do: most keys see one call in a window.
        let is_first = self.newest() == 0 && self.request.cost() == 1 && self.limits.len() == 1;
        let until = if is_first { last + horizon } else { self.end_of_periods(last) };
        self.remember(is_kept.then_some(meta), until, commands);
        first
    }

    /// Blocks the key if a limit refuses, and the request says so.
    pub(super) fn offend(&mut self, commands: &mut Vec<Cmd>) {
        let (block, mut meta) = (self.request.block_duration(), self.lasting_meta());
        if block.first_us() == 0 || self.blocked_for() > 0 || !self.is_full() {
            return;
        }
        meta.ends = self.time.now + block.after(meta.strikes);
        // Only a range counts strikes.
        if block.longest_us() > 0 {
            (meta.strikes, meta.remembered) = (meta.strikes + 1, block.longest_us());
        }
        self.remember(Some(meta), self.end_of_units(), commands);
        self.blocked_until = meta.ends;
    }

    /// Blocks the key for so long.
    pub(super) fn block(&self, duration: u64, commands: &mut Vec<Cmd>) {
        let (longest, mut meta) = (self.request.block_duration().longest_us(), self.lasting_meta());
        meta.ends = self.time.now + duration;
        if longest > 0 {
            meta.remembered = longest;
        }
        self.remember(Some(meta), self.end_of_units(), commands);
    }

    /// Ends the block, and forgets the strikes; says whether a block lasted.
    pub(super) fn unblock(&self, commands: &mut Vec<Cmd>) -> bool {
        if let Some(meta) = self.meta {
            let is_kept = self.newest_unit() > 0 || meta.newest >= self.time.now;
            let kept = Meta { newest: self.newest(), ..Meta::default() };
            self.remember(is_kept.then_some(kept), self.end_of_units(), commands);
        }
        self.blocked_for() > 0
    }

    /// The meta member to go on with: strikes that are remembered still, and the newest ticket. Only
    /// a request with a range forgets strikes before their time.
    fn lasting_meta(&self) -> Meta {
        let meta = Meta { newest: self.newest(), ..self.meta.unwrap_or_default() };
        let longest = self.request.block_duration().longest_us();
        let remembered = if longest > 0 { longest } else { meta.remembered };
        let strikes = if self.time.now < meta.ends + remembered { meta.strikes } else { 0 };
        Meta { strikes, ..meta }
    }

    /// The end of the period after that of the newest ticket; a period is as long as the longest
    /// window. So the key lives long enough for all tickets of one period, and scripts write that
    /// once in a period.
    fn end_of_periods(&self, newest: u64) -> u64 {
        let period = self.request.horizon_us().max(1);
        (self.time.now.max(newest) / period + 2) * period
    }

    /// Until when the key has to live, but for a block and strikes.
    fn end_of_units(&self) -> u64 {
        // The caller's clock may stand at the newest ticket for longer than the server's.
        let lasts = self.newest_unit() > 0 || !self.time.is_servers;
        if lasts { self.end_of_periods(self.newest()) } else { self.newest() }
    }

    /// Replaces the meta member, and lets the key live until this time, or as long as the block and
    /// the strikes need.
    fn remember(&self, meta: Option<Meta>, until: u64, commands: &mut Vec<Cmd>) {
        let member = meta.map(|meta| meta.member());
        let mut until = until;
        if let (Some(meta), Some(member)) = (meta, &member) {
            commands.push(self.command("ZADD").arg(meta.score()).arg(member).take());
            until = until.max(meta.ends + if meta.strikes > 0 { meta.remembered } else { 0 });
        }
        if let Some(old) = self.meta.map(|old| old.member()).filter(|old| Some(old) != member.as_ref()) {
            commands.push(self.command("ZREM").arg(old).take());
        }
        // The millisecond after: a key is gone in the one that it expires in.
        commands.push(if self.time.is_servers {
            self.command("PEXPIREAT").arg(until / 1_000 + 1).take()
        } else {
            // A second later, as the scripts do: the caller's clock may be coarse or late.
            self.command("PEXPIRE").arg(until.saturating_sub(self.time.now) / 1_000 + 1_001).take()
        });
    }

    /// Gives back the units of a charge that still count. The last command says how many there
    /// were.
    pub(super) fn refund(&self, ticket: u64, commands: &mut Vec<Cmd>) {
        let (newest, end) = (self.newest(), ticket.saturating_add(self.request.cost()));
        let first = ticket.max((self.time.now + 1).saturating_sub(self.request.horizon_us()));
        if ticket == 0 || first >= end {
            return;
        }
        // No ticket is given twice: where the newest unit goes before the clock has passed it, it
        // is remembered. First, because a set without members loses its expiry.
        if end > newest && newest >= self.time.now {
            self.remember(Some(self.lasting_meta()), self.end_of_periods(newest), commands);
        }
        let mut remove = self.command("ZREM");
        for ticket in first..end {
            remove.arg(ticket);
        }
        commands.push(remove);
    }

    /// The verdict, once the counts are known, or are not [lacked](Self::lacks_counts). `ticket` is
    /// the first unit's of what was charged.
    pub(super) fn verdict(&self, ticket: u64) -> Verdict {
        let (now, charged) = (self.time.now, if ticket > 0 { self.request.cost() } else { 0 });
        let standing = self.limits.iter().enumerate().map(|(index, standing)| {
            let wait = standing.wait(now, self.request.cost());
            let unknown = if wait > 0 { max(standing.limit) } else { 0 };
            let used = standing.used.map_or(unknown, |(charged, reserved)| charged + reserved);
            (wait, max(standing.limit).saturating_sub(used + charged), index, standing.limit.window_us())
        });
        // The longest wait, then the least left.
        let decisive = standing.min_by_key(|(wait, left, ..)| (!wait, *left));
        let Some((wait, remaining, limit_index, window)) = decisive else { return Verdict::refused() };
        let newest = if ticket > 0 { ticket + charged - 1 } else { self.newest_unit() };
        let (blocked_for, reset) = (self.blocked_for(), if newest > 0 { newest + window } else { 0 });
        let verdict = Verdict {
            allowed: wait == 0,
            limit_index,
            remaining,
            retry_after_us: wait.max(blocked_for),
            reset_after_us: reset.saturating_sub(now).max(blocked_for),
            ticket,
            ..Verdict::admitted()
        };
        if blocked_for == 0 {
            return verdict;
        }
        Verdict { allowed: false, remaining: 0, ..verdict }.by_block_for(blocked_for)
    }
}

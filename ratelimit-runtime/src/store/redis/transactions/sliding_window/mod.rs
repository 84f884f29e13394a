//! The exact sliding window without scripts: the sorted set of `sliding_window/zset/full.lua`,
//! decided here. Both may work on one key.

use redis::{Cmd, Value, cmd};

mod open_decision;

pub(super) use self::open_decision::OpenDecision;
use super::lifetime::Time;
use super::log_format::{MOST_STRIKES, Meta, SetEntry, member};
use super::reply;
use super::transaction::Plan;
use crate::rule::Limit;
use crate::store::Request;
use crate::store::redis::scripts::operation::Operation;

/// How many entries that have left all windows one admission removes, at least.
const TRIM: u64 = 64;
/// A set of so many entries is rid of all that have left at once.
const SHORT: u64 = 256;

/// The commands that read what [`LogState::of`] needs.
pub(super) fn read(request: &Request<'_>, operation: Operation, commands: &mut Vec<Cmd>) {
    let key = request.key();
    let mut add = |mut command: Cmd, args: &[u64], scores: bool| {
        for arg in args {
            command.arg(arg);
        }
        if scores {
            command.arg("WITHSCORES");
        }
        commands.push(command);
    };
    let on_key = |name: &str| {
        let mut command = cmd(name);
        command.arg(key);
        command
    };
    add(on_key("PTTL"), &[], false);
    add(on_key("ZCARD"), &[], false);
    add(on_key("ZREVRANGE"), &[0, 1], true);
    let last_trimmed = trim(request) - 1;
    add(on_key("ZRANGE"), &[last_trimmed, last_trimmed], true);
    let mut charged = on_key("ZSCORE");
    charged.arg(member(operation.ticket()));
    add(charged, &[], false);
    for limit in request.limits() {
        // The entry that has to leave before the call fits, counted from the newest; behind the
        // meta member it is one further.
        let rank = max(limit).saturating_sub(request.cost());
        add(on_key("ZREVRANGE"), &[rank, rank + 1], true);
    }
}

/// How many replies [`read`] gets.
pub(super) fn reads(request: &Request<'_>) -> usize {
    5 + request.limits().len()
}

fn trim(request: &Request<'_>) -> u64 {
    request.cost().max(TRIM)
}

fn max(limit: &Limit) -> u64 {
    limit.max().max(1)
}

/// What was read of one key, and what it means for the request.
pub(super) struct LogState<'a> {
    request: Request<'a>,
    time: Time,
    now: u64,
    /// Never behind the newest entry.
    at: u64,
    left_millis: i64,
    newest: Option<SetEntry>,
    meta: Option<Meta>,
    /// The admissions in the log, expired ones included; 0 if all of them are expired.
    logged: u64,
    /// Whether the first [`trim`] entries are expired.
    trims_all: bool,
    /// When the charge that is to be refunded was made.
    charged: Option<u64>,
    /// For each limit how long it refuses; 0 where it does not.
    wait: Vec<u64>,
}

impl<'a> LogState<'a> {
    /// `None` if the key is not a log.
    pub(super) fn of(
        request: Request<'a>,
        operation: Operation,
        time: Time,
        now: u64,
        replies: &[Value],
    ) -> Option<Self> {
        let [left, all, top, oldest, charged, by_limit @ ..] = replies else { return None };
        let top = reply::entries(top)?;
        let meta = match top.first() {
            Some(first) if Meta::is_meta(first.0) => Some(Meta::of(*first)?),
            _ => None,
        };
        let beside = usize::from(meta.is_some());
        let newest = match top.get(beside) {
            Some(newest) => Some(SetEntry::of(*newest)?),
            None => None,
        };
        let at = newest.map_or(now, |newest| now.max(newest.time));
        let longest = request.horizon_us();
        let counts = newest.is_some_and(|newest| newest.time + longest > at);
        let logged = if counts { reply::count(all)?.saturating_sub(beside as u64) } else { 0 };
        let mut wait = Vec::with_capacity(by_limit.len());
        for (limit, entries) in request.limits().iter().zip(by_limit) {
            let full = logged > 0 && logged + request.cost() > max(limit);
            let leaves = match reply::entries(entries)?.get(beside) {
                Some(leaves) if full => (SetEntry::of(*leaves)?.time + limit.window_us()).saturating_sub(at),
                _ => 0,
            };
            wait.push(leaves);
        }
        let trims_all = match reply::entries(oldest)?.first() {
            Some(last) if !Meta::is_meta(last.0) => SetEntry::of(*last)?.time + longest <= at,
            _ => false,
        };
        let charged = match charged {
            Value::Nil => None,
            score => Some(SetEntry::of((member(operation.ticket()).as_bytes(), reply::score(score)?))?.time),
        };
        let left_millis = reply::integer(left)?;
        Some(Self { request, time, now, at, left_millis, newest, meta, logged, trims_all, charged, wait })
    }

    fn blocked_for(&self) -> u64 {
        self.meta.map_or(0, |meta| meta.blocked_for(self.now))
    }

    fn is_refused(&self) -> bool {
        self.wait.iter().any(|wait| *wait > 0)
    }

    pub(super) fn admits(&self) -> bool {
        !self.is_refused() && self.blocked_for() == 0
    }

    fn command(&self, name: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(self.request.key());
        command
    }

    /// What is left of the key's life in microseconds, where a clock that stepped back makes that
    /// matter, and the command that cuts it to what it would be had the key been written now.
    fn life(&self) -> (u64, Option<Cmd>) {
        if self.at == self.now {
            return (u64::MAX, None);
        }
        let longest = self.request.horizon_us().max(self.meta.map_or(0, |meta| self.rest_of_block(meta)));
        match u64::try_from(self.left_millis) {
            Ok(left) if left <= self.time.lasting_millis(longest) => ((left + 1) * 1000, None),
            // The key is gone since it was watched: the transaction will fail.
            Err(_) if self.left_millis == -2 => (1000, None),
            _ => {
                let cut = self.time.expire(self.request.key(), self.now, longest);
                ((longest.div_ceil(1000) + 1) * 1000, Some(cut))
            }
        }
    }

    /// Decides: charges if `charge`, blocks a refused key if the request says so and `blocks`.
    pub(super) fn decide(self, charge: bool, blocks: bool, writes: &mut Vec<Cmd>) -> OpenDecision<'a> {
        let (mut life, cut) = self.life();
        let (mut blocked_for, mut has_meta) = (self.blocked_for(), self.meta.is_some());
        let mut ticket = 0;
        if charge && self.request.cost() > 0 {
            let last = self.newest.map_or(0, |newest| newest.ticket).max(self.meta.unwrap_or_default().ticket);
            ticket = self.at.max(last + 1);
            has_meta = self.charge(ticket, writes);
            life = u64::MAX;
        } else if blocks && self.is_refused() && blocked_for == 0 && self.request.block_us() > 0 {
            let strikes = self.strikes();
            blocked_for = self.request.block_duration().after(strikes);
            let last = self.newest.map_or(0, |newest| newest.time);
            let counts = (last + self.request.horizon_us()).saturating_sub(self.now).min(self.request.horizon_us());
            let blocked = self.block(blocked_for, strikes + 1, writes);
            writes.push(self.expire(self.rest_of_block(blocked).max(counts)));
            (life, has_meta) = (u64::MAX, true);
        } else {
            self.mend_block(writes);
            if let Some(cut) = cut {
                writes.push(cut);
                if !has_meta {
                    self.note(Meta::default(), writes);
                    has_meta = true;
                }
            }
        }
        OpenDecision { state: self, life, blocked_for, has_meta, ticket }
    }

    /// Says whether a meta member stays.
    fn charge(&self, ticket: u64, writes: &mut Vec<Cmd>) -> bool {
        if self.logged == 0 && (self.newest.is_some() || self.meta.is_some()) {
            // All of it has expired.
            writes.push(self.command("UNLINK"));
        }
        let mut add = self.command("ZADD");
        for offset in 0..self.request.cost() {
            add.arg(self.at).arg(member(ticket + offset));
        }
        writes.push(add);
        let newest = ticket + self.request.cost() - 1;
        let is_behind = self.at > self.now;
        // What makes the next block longer stays; a block that is over does not.
        let past = self.meta.filter(|_| self.strikes() > 0);
        if is_behind || past.is_some() {
            let ticket = if is_behind { newest } else { 0 };
            self.note(Meta { ticket, ..past.unwrap_or_default() }, writes);
        } else if self.logged > 0 {
            writes.extend(self.without_meta());
        }
        if self.logged > 0 {
            // A bounded piece of work per call, yet never less than what was added.
            let mut remove;
            if self.trims_all && self.logged > SHORT {
                remove = self.command("ZREMRANGEBYRANK");
                remove.arg(0).arg(trim(&self.request) - 1);
            } else {
                remove = self.command("ZREMRANGEBYSCORE");
                remove.arg("-inf").arg(self.at.saturating_sub(self.request.horizon_us()));
            }
            writes.push(remove);
        }
        let is_first = self.logged == 0 && self.request.cost() == 1;
        writes.push(if is_behind || is_first || past.is_some() {
            let rest = past.map_or(0, |past| self.rest_of_block(past));
            self.expire(rest.max(self.request.horizon_us()))
        } else {
            self.expire_by_cell(newest)
        });
        is_behind || past.is_some()
    }

    /// Lets the key live to the end of the cell after that of its newest ticket; a cell is as long
    /// as the longest window. The scripts write that once in a cell: where two entries count and
    /// the newest is of this cell, they take it for written.
    fn expire_by_cell(&self, newest: u64) -> Cmd {
        let cell = self.request.horizon_us().max(1);
        self.expire((newest - newest % cell + 2 * cell).saturating_sub(self.now))
    }

    fn expire(&self, lasts: u64) -> Cmd {
        self.time.expire(self.request.key(), self.now, lasts)
    }

    fn without_meta(&self) -> Option<Cmd> {
        let mut remove = self.command("ZREM");
        remove.arg(self.meta?.member());
        Some(remove)
    }

    /// Replaces the meta member.
    fn note(&self, meta: Meta, writes: &mut Vec<Cmd>) {
        let mut add = self.command("ZADD");
        add.arg(meta.score()).arg(meta.member());
        writes.push(add);
        if self.meta.is_some_and(|old| old.member() != meta.member()) {
            writes.extend(self.without_meta());
        }
    }

    fn block(&self, block: u64, strikes: u64, writes: &mut Vec<Cmd>) -> Meta {
        let ticket = self.meta.unwrap_or_default().ticket;
        let meta = Meta { blocked_until: self.now + block, block, ticket, strikes: strikes.min(MOST_STRIKES) };
        self.note(meta, writes);
        meta
    }

    /// How many blocks in a row count for the request.
    fn strikes(&self) -> u64 {
        let longest = self.request.block_duration().longest_us();
        self.meta.filter(|meta| self.now < meta.blocked_until + longest).map_or(0, |meta| meta.strikes)
    }

    /// How long a block, and what is remembered of it, goes on.
    fn rest_of_block(&self, meta: Meta) -> u64 {
        let remembered = if meta.strikes > 0 { self.request.block_duration().longest_us() } else { 0 };
        (meta.blocked_until.min(self.now + meta.block) + remembered).saturating_sub(self.now)
    }

    /// A block lasts no longer than it was given, also where the clock has stepped back.
    fn mend_block(&self, writes: &mut Vec<Cmd>) {
        let blocked_for = self.blocked_for();
        if self.meta.is_some_and(|meta| meta.blocked_until > self.now + blocked_for) {
            let _ = self.block(blocked_for, self.strikes(), writes);
        }
    }

    /// What changes the key at once: a refund, a block, the end of one. Says whether there was
    /// anything.
    pub(super) fn change(&self, operation: Operation) -> Plan<bool> {
        let mut commands = Vec::new();
        let done = match operation {
            Operation::Refund(ticket) => self.refund(ticket, &mut commands),
            Operation::Block(duration) => {
                let block = self.request.with_block(duration).block_us();
                let left = u64::try_from(self.left_millis).unwrap_or(0);
                let blocked = self.block(block, self.strikes(), &mut commands);
                let left = left.saturating_mul(1000).min(Limit::MAX_COUNT);
                commands.push(self.expire(self.rest_of_block(blocked).max(left)));
                true
            }
            Operation::Unblock => {
                let Meta { blocked_until, ticket, strikes, .. } = self.meta.unwrap_or_default();
                if blocked_until == 0 && strikes == 0 {
                    return Plan { commands, decided: false };
                }
                if ticket > 0 || self.at > self.now {
                    self.note(Meta { ticket, ..Meta::default() }, &mut commands);
                    commands.push(self.expire(self.request.horizon_us()));
                } else {
                    commands.extend(self.without_meta());
                    commands.extend(self.newest.map(|newest| self.expire_by_cell(newest.ticket)));
                }
                self.blocked_for() > 0
            }
            _ => false,
        };
        Plan { commands, decided: done }
    }

    fn refund(&self, ticket: u64, writes: &mut Vec<Cmd>) -> bool {
        let counts = self.charged.is_some_and(|charged| charged + self.request.horizon_us() > self.at);
        if counts {
            // The newest ticket is remembered, so that it is never given again. First, because a
            // set without members loses its expiry.
            if let Some(newest) = self.newest.filter(|newest| newest.ticket < ticket + self.request.cost()) {
                let meta = self.meta.unwrap_or_default();
                self.note(Meta { ticket: newest.ticket.max(meta.ticket), ..meta }, writes);
            }
            let mut remove = self.command("ZREM");
            for offset in 0..self.request.cost() {
                remove.arg(member(ticket + offset));
            }
            writes.push(remove);
        }
        counts
    }
}

//! The exact sliding window without scripts: the sorted set of `scripts/zset.lua`, decided here. Both may work on one key.

use redis::{Cmd, Value, cmd};

use super::reply;
use super::transaction::Attempt;
use crate::rule::Limit;
use crate::store::redis::operation::Operation;
use crate::store::{Request, Verdict};

/// How many entries that have left all windows one admission removes, at least.
const TRIM: u64 = 64;

/// Where the time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    Server,
    Callers,
}

impl Time {
    /// As in `scripts/common.lua`: short lives are drawn out, what still counts is known from the entries.
    fn lasting(self, micros: u64) -> u64 {
        micros.max(if self == Self::Server { 10_000 } else { 1_000_000 })
    }

    fn lasting_millis(self, micros: u64) -> u64 {
        self.lasting(micros).div_ceil(1000)
    }

    fn expire(self, key: &[u8], now: u64, micros: u64) -> Cmd {
        let mut command = match self {
            Self::Server => cmd("PEXPIREAT"),
            Self::Callers => cmd("PEXPIRE"),
        };
        command.arg(key).arg(match self {
            Self::Server => (now + self.lasting(micros)) / 1000,
            Self::Callers => self.lasting_millis(micros),
        });
        command
    }
}

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
    add(on_key("ZSCORE"), &[operation.ticket()], false);
    for limit in request.limits() {
        // The entry that has to leave before the call fits, counted from the newest; behind a ban it is one further.
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
    /// The time and the ticket of the newest admission.
    newest: Option<(u64, u64)>,
    /// Until when the key is banned or was; `None` without such a member.
    ban: Option<u64>,
    /// The admissions in the log, expired ones included; 0 if all of them are expired.
    logged: u64,
    /// Whether the first [`trim`] entries are expired.
    trims_all: bool,
    /// When the charge was made that a refund is about.
    charged: Option<u64>,
    /// For each limit how long it refuses; 0 where it does not.
    wait: Vec<u64>,
}

impl<'a> LogState<'a> {
    /// `None` if the key does not hold a log.
    pub(super) fn of(request: Request<'a>, time: Time, now: u64, replies: &[Value]) -> Option<Self> {
        let [left, all, top, oldest, charged, by_limit @ ..] = replies else { return None };
        let top = reply::entries(top)?;
        let is_ban = |entry: &&(&[u8], u64)| entry.0 == b"ban";
        let ban = top.first().filter(is_ban).map(|entry| entry.1);
        let newest = match top.get(usize::from(ban.is_some())) {
            Some((member, score)) => Some((*score, reply::number(member)?)),
            None => None,
        };
        let at = newest.map_or(now, |(last, _)| now.max(last));
        let longest = request.horizon_us();
        let counts = newest.is_some_and(|(last, _)| last + longest > at);
        let logged = if counts { reply::count(all)?.saturating_sub(u64::from(ban.is_some())) } else { 0 };
        let mut wait = Vec::with_capacity(by_limit.len());
        for (limit, entries) in request.limits().iter().zip(by_limit) {
            let entries = reply::entries(entries)?;
            let full = logged > 0 && logged + request.cost() > max(limit);
            let leaves = entries.get(usize::from(ban.is_some())).filter(|_| full);
            wait.push(leaves.map_or(0, |(_, score)| (score + limit.window_us()).saturating_sub(at)));
        }
        Some(Self {
            request,
            time,
            now,
            at,
            left_millis: reply::integer(left)?,
            newest,
            ban,
            logged,
            trims_all: reply::entries(oldest)?.first().is_some_and(|(_, score)| score + longest <= at),
            charged: reply::score(charged),
            wait,
        })
    }

    fn banned_until(&self) -> u64 {
        self.ban.unwrap_or(0)
    }

    fn is_blocked(&self) -> bool {
        self.banned_until() > self.now
    }

    fn is_refused(&self) -> bool {
        self.wait.iter().any(|wait| *wait > 0)
    }

    pub(super) fn admits(&self) -> bool {
        !self.is_refused() && !self.is_blocked()
    }

    fn command(&self, name: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(self.request.key());
        command
    }

    /// What is left of the key's life in microseconds, where a clock that stepped back makes that matter, and the
    /// command that cuts it to what it would be had the key been written now.
    fn life(&self) -> (u64, Option<Cmd>) {
        if self.at == self.now {
            return (u64::MAX, None);
        }
        let longest =
            self.request.horizon_us().max(self.request.block_us()).max(self.banned_until().saturating_sub(self.now));
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

    /// Decides: charges if `charge`, bans whoever is refused if the request says so and `bans`.
    pub(super) fn decide(self, charge: bool, bans: bool, writes: &mut Vec<Cmd>) -> Decided<'a> {
        let (mut life, cut) = self.life();
        let mut ban = self.banned_until();
        let mut ticket = 0;
        if charge && self.request.cost() > 0 {
            ticket = self.newest.map_or(self.at, |(_, newest)| self.at.max(newest + 1));
            self.charge(ticket, writes);
            (life, ban) = (u64::MAX, 0);
        } else if bans && self.is_refused() && !self.is_blocked() && self.request.block_us() > 0 {
            ban = self.now + self.request.block_us();
            let last = self.newest.map_or(0, |(last, _)| last);
            let counts = (last + self.request.horizon_us()).saturating_sub(self.now);
            self.ban(ban, self.request.block_us().max(counts), writes);
            life = u64::MAX;
        } else {
            writes.extend(cut);
        }
        Decided { state: self, life, ban, ticket }
    }

    fn charge(&self, ticket: u64, writes: &mut Vec<Cmd>) {
        if self.logged == 0 && (self.newest.is_some() || self.ban.is_some()) {
            // All of it has expired.
            writes.push(self.command("UNLINK"));
        } else if self.ban.is_some() {
            let mut unban = self.command("ZREM");
            unban.arg("ban");
            writes.push(unban);
        }
        let mut add = self.command("ZADD");
        for offset in 0..self.request.cost() {
            add.arg(self.at).arg(ticket + offset);
        }
        writes.push(add);
        // A bounded piece of work per call, yet never less than what was added.
        let mut remove;
        if self.trims_all {
            remove = self.command("ZREMRANGEBYRANK");
            remove.arg(0).arg(trim(&self.request) - 1);
        } else {
            remove = self.command("ZREMRANGEBYSCORE");
            remove.arg("-inf").arg(self.at.saturating_sub(self.request.horizon_us()));
        }
        if self.logged > 0 {
            writes.push(remove);
        }
        writes.push(self.time.expire(self.request.key(), self.now, self.request.horizon_us()));
    }

    fn ban(&self, until: u64, lasts: u64, writes: &mut Vec<Cmd>) {
        let mut ban = self.command("ZADD");
        ban.arg(until).arg("ban");
        writes.push(ban);
        writes.push(self.time.expire(self.request.key(), self.now, lasts));
    }

    /// What changes the key at once: a refund, a ban, the end of one. Says whether there was anything.
    pub(super) fn change(&self, operation: Operation) -> Attempt<bool> {
        let mut commands = Vec::new();
        let done = match operation {
            Operation::Refund(ticket) => {
                let counts = self.charged.is_some_and(|charged| charged + self.request.horizon_us() > self.at);
                if counts {
                    let mut remove = self.command("ZREM");
                    for offset in 0..self.request.cost() {
                        remove.arg(ticket + offset);
                    }
                    commands.push(remove);
                }
                counts
            }
            Operation::Block(duration) => {
                let lasts = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
                let left = u64::try_from(self.left_millis).unwrap_or(0);
                self.ban(self.now + lasts, lasts.max(left * 1000), &mut commands);
                true
            }
            Operation::Unblock => {
                if self.ban.is_some() {
                    let mut unban = self.command("ZREM");
                    unban.arg("ban");
                    commands.push(unban);
                    commands.push(self.time.expire(self.request.key(), self.now, self.request.horizon_us()));
                }
                self.is_blocked()
            }
            _ => false,
        };
        Attempt { commands, decided: done }
    }
}

/// A decision that lacks only how much of each limit is used, which [`Self::counts`] asks in the same transaction.
pub(super) struct Decided<'a> {
    state: LogState<'a>,
    life: u64,
    ban: u64,
    ticket: u64,
}

impl Decided<'_> {
    /// Whether the counts are needed. Where a limit refuses a call of 1, nothing is left of it.
    pub(super) fn is_open(&self) -> bool {
        !self.state.is_refused() || self.state.request.cost() > 1
    }

    /// The commands whose replies [`verdict`](Self::verdict) takes, one for each limit.
    pub(super) fn counts(&self, commands: &mut Vec<Cmd>) {
        for limit in self.state.request.limits() {
            let mut count = self.state.command("ZCOUNT");
            count.arg(format!("({}", self.state.at.saturating_sub(limit.window_us()))).arg("+inf");
            commands.push(count);
        }
    }

    pub(super) fn verdict(&self, counts: &[Value]) -> Option<Verdict> {
        let LogState { request, now, at, wait, newest, logged, .. } = &self.state;
        let charged = self.ticket > 0;
        let last = if charged { *at } else { newest.map_or(0, |(last, _)| last) };
        let mut decisive: Option<(u64, u64, u64, usize)> = None;
        for (index, (limit, &wait)) in request.limits().iter().zip(wait).enumerate() {
            let live = match counts.get(index) {
                _ if *logged == 0 && !charged => 0,
                Some(count) => {
                    // The member that is a ban has a time as well.
                    let is_counted = self.ban > at.saturating_sub(limit.window_us());
                    reply::count(count)?.saturating_sub(u64::from(is_counted))
                }
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
        if self.ban > *now {
            let banned_for = (self.ban - now).min(self.life);
            let verdict = Verdict::new(false, left, retry.max(banned_for), whole.max(banned_for));
            return Some(verdict.by_limit(index).by_block());
        }
        Some(Verdict::new(wait == 0, left, retry, whole).by_limit(index).with_ticket(self.ticket))
    }
}

//! [`StoredLog`]: the exact sliding window without scripts: a sorted set with a member for each
//! unit of cost, whose score is its own microsecond, its ticket.
//!
//! The reads are by rank and so need no time: they go in one call with `TIME`. A limit refuses
//! while the unit that must leave before the call fits is in its window; the units used are counted
//! in the transaction that writes.
//!
//! A call is admitted when its `EXEC` runs, which is later than `TIME` by an unknown time, and no
//! command of a transaction can depend on the time of another. So a charge is dated ahead by the
//! time that the reads took and a little more, and its transaction reports when it ran:
//!
//! - Not after the first ticket: the call is admitted. Its units count until a window after their
//!   tickets, so at least for a window from the admission, and longer by as much as they are ahead.
//! - Later: a window from the admission would end after that of the tickets. The call is not
//!   admitted; its units are given back, and it asks anew, dated further ahead.
//!
//! A call admitted at *t* has read, at or before *t*, that the units that still count leave room
//! for it. All units admitted in (*t* − window, *t*] have tickets above *t* − window, so they
//! counted then: no more than `max` is ever admitted in a window. A caller that is dropped before
//! it has given back leaves units of no admission, which expire.

use redis::{Cmd, Value, cmd, from_redis_value_ref};

use crate::rule::Limit;
use crate::store::{Request, Verdict};

/// The most units that have left all windows which one admission removes: as many as it may add.
const TRIM: i64 = 1_000;
/// 2^53: up to here, scores are exact. No ticket is larger.
const LARGEST: f64 = 9_007_199_254_740_992.0;
/// The member that remembers the newest ticket after its unit was given back. Its score is the
/// negative ticket, which is outside all counts and ranks.
const NEWEST: &str = "newest";

/// The server's time in microseconds, from the reply to `TIME`.
pub(super) fn servers(time: &Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = from_redis_value_ref(time).ok()?;
    seconds
        .checked_mul(1_000_000)?
        .checked_add(micros)
        .filter(|time| *time <= Limit::MAX_COUNT)
}

/// The state of a key, read for a request.
#[derive(Debug)]
pub(super) struct StoredLog<'a> {
    key: &'a [u8],
    request: Request<'a>,
    /// The time of the decision, in microseconds.
    now: u64,
    /// The microseconds by which a charge is dated ahead: most often the time until `EXEC`; 0 by a
    /// clock of the caller.
    ahead: u64,
    /// For each limit, the ticket that has to leave before the call fits; 0 for none.
    leaves: Vec<u64>,
    /// For each limit, the units used before this call; empty until they are counted.
    used: Vec<u64>,
    /// The newest unit; 0 for none.
    last: u64,
    /// The newest ticket ever given.
    newest: u64,
    /// The newest unit that an admission may remove: with fewer than [`TRIM`] units, any.
    trim: u64,
}

/// The commands whose replies [`StoredLog::of`] reads.
pub(super) fn reads(key: &[u8], request: &Request<'_>) -> Vec<Cmd> {
    let range = |rank: i64| {
        cmd("ZRANGE")
            .arg(key)
            .arg(rank)
            .arg(rank)
            .arg("WITHSCORES")
            .take()
    };
    let by_limit = request.limits().iter().map(|limit| {
        // Counted from the newest.
        let rank = max(limit).saturating_sub(request.cost()) + 1;
        range(-i64::try_from(rank).unwrap_or(i64::MAX))
    });
    let newest = cmd("ZSCORE").arg(key).arg(NEWEST).take();
    [newest, range(-1), range(TRIM - 1)]
        .into_iter()
        .chain(by_limit)
        .collect()
}

fn max(limit: &Limit) -> u64 {
    limit.max().max(1)
}

/// The ticket of the unit in a reply to `ZRANGE`; 0 if it is empty. `None` for a foreign member.
#[allow(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "up to 2^53, both are exact"
)]
fn ticket(reply: &Value) -> Option<u64> {
    let members: Vec<(String, f64)> = from_redis_value_ref(reply).ok()?;
    let Some((member, score)) = members.first() else {
        return Some(0);
    };
    if member == NEWEST {
        return Some(0);
    }
    let ticket = member.parse::<u64>().ok()?;
    (*score <= LARGEST && ticket as f64 == *score).then_some(ticket)
}

/// The ticket in the score of [`NEWEST`]; 0 if there is none.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "in range"
)]
fn remembered(score: &Value) -> Option<u64> {
    let score = -from_redis_value_ref::<Option<f64>>(score)
        .ok()?
        .unwrap_or(0.0);
    (0.0..=LARGEST).contains(&score).then_some(score as u64)
}

impl<'a> StoredLog<'a> {
    /// Reads the replies to [`reads`], for a time and how far a charge is dated ahead of it. `None`
    /// if the key is not a log.
    pub(super) fn of(
        key: &'a [u8],
        request: Request<'a>,
        (now, ahead): (u64, u64),
        replies: &[Value],
    ) -> Option<Self> {
        let [newest, last, trim, by_limit @ ..] = replies else {
            return None;
        };
        let last = ticket(last)?;
        Some(Self {
            key,
            request,
            now,
            ahead,
            leaves: by_limit.iter().map(ticket).collect::<Option<_>>()?,
            used: Vec::new(),
            last,
            newest: last.max(remembered(newest)?),
            trim: Some(ticket(trim)?)
                .filter(|ticket| *ticket > 0)
                .unwrap_or(u64::MAX),
        })
    }

    fn command(&self, name: &str) -> Cmd {
        cmd(name).arg(self.key).take()
    }

    /// The start of a window that ends now. Units at it no longer count.
    fn edge(&self, window: u64) -> u64 {
        self.now.saturating_sub(window)
    }

    /// The commands whose replies [`count`](Self::count) reads.
    pub(super) fn counts(&self) -> Vec<Cmd> {
        let limits = self.request.limits().iter();
        let edges = limits.map(|limit| format!("({}", self.edge(limit.window_us())));
        edges
            .map(|edge| self.command("ZCOUNT").arg(edge).arg("+inf").take())
            .collect()
    }

    /// Reads the used units from the replies to [`counts`](Self::counts).
    pub(super) fn count(&mut self, replies: &[Value]) -> Option<()> {
        let counts = replies
            .iter()
            .take(self.leaves.len())
            .map(from_redis_value_ref);
        self.used = counts.collect::<Result<_, _>>().ok()?;
        Some(())
    }

    /// `true` if the verdict needs the counts. A limit that refuses a cost of 1 has no units left.
    pub(super) fn needs_counts(&self) -> bool {
        self.request.cost() > 1 || self.admits()
    }

    /// For each limit, the microseconds for which it refuses; 0 if it admits.
    fn waits(&self) -> impl Iterator<Item = (u64, &Limit)> {
        self.request
            .limits()
            .iter()
            .zip(&self.leaves)
            .map(|(limit, leaves)| {
                let frees = if *leaves == 0 {
                    0
                } else {
                    leaves + limit.window_us()
                };
                (frees.saturating_sub(self.now), limit)
            })
    }

    pub(super) fn admits(&self) -> bool {
        self.waits().all(|(wait, _)| wait == 0)
    }

    /// Adds a member for each unit; returns the ticket of the first. The first command tells when
    /// the transaction ran.
    pub(super) fn charge(&self, commands: &mut Vec<Cmd>) -> u64 {
        if self.request.cost() == 0 {
            return 0;
        }
        commands.push(cmd("TIME"));
        let lapsed = self.edge(self.request.demand().horizon_us()).min(self.trim);
        commands.push(self.command("ZREMRANGEBYSCORE").arg(0).arg(lapsed).take());
        let first = (self.now + self.ahead).max(self.newest + 1);
        let last = first + self.request.cost() - 1;
        let mut add = self.command("ZADD");
        for ticket in first..=last {
            add.arg(ticket).arg(ticket);
        }
        commands.push(add);
        commands.push(self.expire(last));
        first
    }

    /// `true` if the transaction of a charge ran after the ticket of its first unit. `ran` is the
    /// reply to its `TIME`. By a clock of the caller, a call counts from when it was asked.
    pub(super) fn is_late(&self, ticket: u64, ran: &Value) -> Option<bool> {
        Some(self.ahead > 0 && servers(ran)? > ticket)
    }

    /// The commands that give back the units of a charge which still count; none if all have left
    /// their windows. The reply to the last is the number of removed units.
    pub(super) fn refund(&self, ticket: u64) -> Vec<Cmd> {
        let mut commands = Vec::new();
        let end = ticket.saturating_add(self.request.cost());
        let first = ticket.max(self.edge(self.request.demand().horizon_us()) + 1);
        if ticket == 0 || first >= end {
            return commands;
        }
        // No ticket is given twice: the newest one is remembered until the clock has passed it.
        // ZADD is first, because a set loses its expiry with its last member.
        if end > self.newest && self.newest >= self.now {
            commands.push(
                self.command("ZADD")
                    .arg(format!("-{}", self.newest))
                    .arg(NEWEST)
                    .take(),
            );
        }
        let mut remove = self.command("ZREM");
        for ticket in first..end {
            remove.arg(ticket);
        }
        commands.push(remove);
        commands
    }

    /// The command that lets the key live until this ticket has left all windows.
    fn expire(&self, newest: u64) -> Cmd {
        let until = newest + self.request.demand().horizon_us();
        // A clock of the caller may be coarse or behind the server's.
        let slack_ms = if self.ahead > 0 { 0 } else { 1_000 };
        // Rounded up: Redis removes a key at the start of a millisecond.
        let lasts = until.saturating_sub(self.now) / 1_000 + 1 + slack_ms;
        self.command("PEXPIRE").arg(lasts).take()
    }

    /// The verdict. If it [needs](Self::needs_counts) the counts, read them first. `ticket` is the
    /// first unit charged, 0 if none was.
    pub(super) fn verdict(&self, ticket: u64) -> Verdict {
        let charged = if ticket > 0 { self.request.cost() } else { 0 };
        let standing = self.waits().enumerate().map(|(index, (wait, limit))| {
            let unknown = if wait > 0 { max(limit) } else { 0 };
            let used = self.used.get(index).copied().unwrap_or(unknown);
            (
                wait,
                max(limit).saturating_sub(used + charged),
                index,
                limit.window_us(),
            )
        });
        // The longest wait, then the least left.
        let decisive = standing.min_by_key(|(wait, left, ..)| (!wait, *left));
        let Some((wait, remaining, limit_index, window)) = decisive else {
            debug_assert!(false, "a request has a limit");
            return Verdict::refused();
        };
        let last = if ticket > 0 {
            ticket + charged - 1
        } else {
            self.last
        };
        let reset = if last > 0 { last + window } else { 0 };
        Verdict {
            allowed: wait == 0,
            limit_index,
            remaining,
            retry_after_us: wait,
            reset_after_us: reset.saturating_sub(self.now),
            ticket,
            ..Verdict::admitted()
        }
    }
}

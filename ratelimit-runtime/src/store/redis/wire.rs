//! Requests and replies as the scripts speak them; `scripts/common.lua` has the other side.

use std::borrow::Cow;
use std::time::Duration;

use redis::{Cmd, Value};

use super::script::{self, Script};
use super::way::LogLayout;
use crate::rule::Algorithm;
use crate::store::{Request, Verdict};

/// How a bucket is kept on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Zset,
    Ring,
    FixedWindow,
    SlidingCounter,
    TokenBucket,
    LeakyBucket,
}

impl Kind {
    /// `layout` is that of all sliding windows; `None` chooses by the rule.
    pub(super) fn of(request: &Request<'_>, layout: Option<LogLayout>) -> Self {
        match request.algorithm() {
            Algorithm::SlidingWindow => match layout {
                Some(LogLayout::Zset) => Self::Zset,
                None if request.is_unit_log() => Self::Zset,
                _ => Self::Ring,
            },
            Algorithm::FixedWindow => Self::FixedWindow,
            Algorithm::SlidingCounter => Self::SlidingCounter,
            Algorithm::TokenBucket => Self::TokenBucket,
            Algorithm::LeakyBucket => Self::LeakyBucket,
        }
    }

    /// The key as stored. The layout of a log is part of it; `%` starts an escape everywhere else, so nothing else
    /// ends like this.
    pub(super) fn key<'a>(self, request: &Request<'a>) -> Cow<'a, [u8]> {
        match self {
            Self::Ring => Cow::Owned([request.key(), b"%ring"].concat()),
            _ => Cow::Borrowed(request.key()),
        }
    }

    pub(super) fn script(self) -> &'static Script {
        match self {
            Self::Zset => &script::ZSET,
            Self::Ring => &script::RING,
            Self::FixedWindow => &script::FIXED_WINDOW,
            Self::SlidingCounter => &script::SLIDING_COUNTER,
            Self::TokenBucket => &script::TOKEN_BUCKET,
            Self::LeakyBucket => &script::LEAKY_BUCKET,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Zset => "zset",
            Self::Ring => "ring",
            Self::FixedWindow => "fixed_window",
            Self::SlidingCounter => "sliding_counter",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
        }
    }
}

/// What a script is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mode {
    Acquire,
    Reserve,
    Peek,
    Refund(u64),
    Release(u64),
    Commit(u64),
    Block(Duration),
    Unblock,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Reserve => "reserve",
            Self::Peek => "peek",
            Self::Refund(_) => "refund",
            Self::Release(_) => "release",
            Self::Commit(_) => "commit",
            Self::Block(_) => "block",
            Self::Unblock => "unblock",
        }
    }

    pub(super) fn ticket(self) -> u64 {
        match self {
            Self::Refund(ticket) | Self::Release(ticket) | Self::Commit(ticket) => ticket,
            _ => 0,
        }
    }
}

pub(super) fn clock(command: &mut Cmd, now: Option<u64>) {
    match now {
        Some(now) => command.arg(now),
        None => command.arg(""),
    };
}

pub(super) fn request(command: &mut Cmd, kind: Kind, mode: Mode, request: &Request<'_>) {
    let block = match mode {
        Mode::Block(duration) => request.with_block(duration).block_us(),
        _ => request.block_us(),
    };
    command.arg(kind.name()).arg(mode.name()).arg(request.cost()).arg(block).arg(mode.ticket());
    command.arg(request.limits().len());
    for limit in request.limits() {
        // A limit of 0 is never asked whether it admits, only reset and the like; the scripts divide by `max`.
        command.arg(limit.max().max(1)).arg(limit.window_us()).arg(limit.capacity().max(1));
    }
}

pub(super) fn verdict(reply: &Value) -> Option<Verdict> {
    let Value::Array(reply) = reply else { return None };
    let numbers = reply.iter().map(number).collect::<Option<Vec<u64>>>()?;
    let [allowed, index, remaining, retry_after, reset_after, ticket, blocked] = *numbers.as_slice() else {
        return None;
    };
    let verdict = Verdict::new(allowed == 1, remaining, retry_after, reset_after)
        .by_limit(usize::try_from(index).ok()?)
        .with_ticket(ticket);
    Some(if blocked == 1 { verdict.by_block() } else { verdict })
}

pub(super) fn flag(reply: &Value) -> Option<bool> {
    match reply {
        Value::Array(reply) => reply.first().and_then(number).map(|flag| flag == 1),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

//! Requests and replies as the scripts speak them; `scripts/common.lua` has the other side.

use redis::{Cmd, Value};

use super::layout::Layout;
use super::operation::Operation;
use super::script::{self, Script};
use crate::store::{Request, Verdict};

/// The script that keeps a bucket this way.
pub(super) fn script(layout: Layout) -> &'static Script {
    match layout {
        Layout::Zset => &script::ZSET,
        Layout::Ring => &script::RING,
        Layout::FixedWindow => &script::FIXED_WINDOW,
        Layout::SlidingCounter => &script::SLIDING_COUNTER,
        Layout::TokenBucket => &script::TOKEN_BUCKET,
        Layout::LeakyBucket => &script::LEAKY_BUCKET,
    }
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Zset => "zset",
        Layout::Ring => "ring",
        Layout::FixedWindow => "fixed_window",
        Layout::SlidingCounter => "sliding_counter",
        Layout::TokenBucket => "token_bucket",
        Layout::LeakyBucket => "leaky_bucket",
    }
}

fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Acquire => "acquire",
        Operation::Reserve => "reserve",
        Operation::Peek => "peek",
        Operation::Refund(_) => "refund",
        Operation::Release(_) => "release",
        Operation::Commit(_) => "commit",
        Operation::Block(_) => "block",
        Operation::Unblock => "unblock",
    }
}

pub(super) fn clock(command: &mut Cmd, now: Option<u64>) {
    match now {
        Some(now) => command.arg(now),
        None => command.arg(""),
    };
}

pub(super) fn request(command: &mut Cmd, layout: Layout, operation: Operation, request: &Request<'_>) {
    let block = match operation {
        Operation::Block(duration) => request.with_block(duration).block_us(),
        _ => request.block_us(),
    };
    command
        .arg(layout_name(layout))
        .arg(operation_name(operation))
        .arg(request.cost())
        .arg(block)
        .arg(operation.ticket());
    command.arg(request.limits().len());
    for limit in request.limits() {
        // A limit of 0 is never asked whether it admits, only reset and the like; the scripts divide by `max`.
        command.arg(limit.max().max(1)).arg(limit.window_us()).arg(limit.capacity().max(1));
    }
}

pub(super) fn verdict(reply: &Value) -> Option<Verdict> {
    let Value::Array(reply) = reply else { return None };
    let [allowed, index, remaining, retry_after, reset_after, ticket, blocked] = reply.as_slice() else { return None };
    let (allowed, index, remaining) = (number(allowed)?, number(index)?, number(remaining)?);
    let (retry_after, reset_after) = (number(retry_after)?, number(reset_after)?);
    let (ticket, blocked) = (number(ticket)?, number(blocked)?);
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

/// The replies to [`script::ALL_OR_NONE`].
pub(super) fn verdicts(reply: &Value) -> Option<Vec<Verdict>> {
    match reply {
        Value::Array(replies) => replies.iter().map(verdict).collect(),
        _ => None,
    }
}

// What a connection is told to expect: a reply that cannot belong to its question shows that replies and questions have
// come apart.

pub(super) fn is_verdict(reply: &Value) -> bool {
    verdict(reply).is_some()
}

pub(super) fn are_verdicts(reply: &Value) -> bool {
    verdicts(reply).is_some()
}

pub(super) fn is_flag(reply: &Value) -> bool {
    flag(reply).is_some()
}

/// Whether such a verdict can be the one on this request.
pub(super) fn fits(verdict: &Verdict, request: &Request<'_>) -> bool {
    request
        .limits()
        .get(verdict.limit_index)
        .is_some_and(|limit| verdict.remaining <= limit.capacity().max(limit.max()))
}

//! What is made of the replies to plain commands, and to that of redis-cell.
#![allow(clippy::missing_panics_doc, reason = "each panics if something does not hold")]

use redis::Value;

use super::lifetime::Time;
use super::sliding_window::{self, LogState};
use super::{fixed_window, reply};
use crate::Algorithm;
use crate::fuzzing::Input;
use crate::rule::Limit;
use crate::store::Request;
use crate::store::redis::redis_cell;
use crate::store::redis::scripts::operation::Operation;

/// Replies of any shape and size to the commands that decide without scripts.
pub fn command_replies(data: &[u8]) {
    let mut input = Input(data);
    let limits: Vec<_> = (0..=input.below(3))
        .map(|_| {
            let window = std::time::Duration::from_micros(1_000 + input.number() % 31_622_400_000_000);
            Limit::new(1 + input.number() % Limit::MAX_COUNT, window)
        })
        .collect();
    let cost = [0, 1, 2, 900].get(usize::from(input.below(4))).copied().unwrap_or(1);
    let request = Request::new(b"key", Algorithm::SlidingWindow, &limits).with_cost(cost);
    let request = if input.below(2) == 0 { request } else { request.with_block(std::time::Duration::from_secs(60)) };
    let ticket = input.number() % Limit::MAX_COUNT;
    let operation = match input.below(5) {
        0 => Operation::Acquire,
        1 => Operation::Peek,
        2 => Operation::Refund(ticket),
        3 => Operation::Block(std::time::Duration::from_secs(60)),
        _ => Operation::Unblock,
    };
    let mut values = Vec::new();
    while !input.is_empty() && values.len() < 16 {
        values.push(value(&mut input, 0));
    }
    redis_cell::read(&Value::Array(values.clone()), &request);
    fixed_window::read(&values, &request);
    let Some((time, replies)) = values.split_first() else { return };
    let Some(now) = reply::time(time) else { return };
    let (mine, counts) = replies.split_at(sliding_window::reads(&request).min(replies.len()));
    let read = || LogState::of(request, operation, Time::Server, now, mine);
    let Some(state) = read() else { return };
    let _ = state.change(operation);
    for (charge, blocks) in [(state.admits(), true), (false, true), (false, false)] {
        let Some(state) = read() else { return };
        let mut commands = Vec::new();
        let decided = state.decide(charge, blocks, &mut commands);
        decided.counts(&mut commands);
        if let Some(verdict) = decided.verdict(counts) {
            assert!(verdict.remaining <= Limit::MAX_COUNT && verdict.limit_index < limits.len(), "{verdict:?}");
            assert!(verdict.allowed || verdict.retry_after_us > 0, "{verdict:?}");
        }
    }
}

fn value(input: &mut Input<'_>, depth: u8) -> Value {
    let edge = |number: u64| match number % 8 {
        0 => i64::MAX,
        1 => -1,
        2 => -2,
        3 => i64::MIN,
        _ => number.cast_signed(),
    };
    match input.below(if depth < 2 { 8 } else { 6 }) {
        0 => Value::Nil,
        1 => Value::Int(edge(input.number())),
        2 => Value::Double(f64::from_bits(input.number())),
        3 => Value::BulkString(input.some().to_vec()),
        4 => Value::BulkString(input.number().to_string().into_bytes()),
        5 => Value::BulkString(format!("{:016}", input.number() % Limit::MAX_COUNT).into_bytes()),
        6 => Value::BulkString(
            format!("meta:{:016}:{:016}:{:04}", input.byte(), input.number() % Limit::MAX_COUNT, input.byte())
                .into_bytes(),
        ),
        _ => Value::Array((0..input.below(5)).map(|_| value(input, depth + 1)).collect()),
    }
}

//! Replies to plain commands, as numbers. RESP2 and RESP3 differ in how they write scores.

use redis::Value;

/// Beyond this, a score is no time that was ever written here, and a time none that a server tells.
const LARGEST: f64 = 9_007_199_254_740_992.0;
const LARGEST_TIME: u64 = 1 << 53;

pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn count(value: &Value) -> Option<u64> {
    integer(value).and_then(|number| u64::try_from(number).ok())
}

/// The reply to TIME, in microseconds.
pub(super) fn time(value: &Value) -> Option<u64> {
    let Value::Array(parts) = value else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    let time = number(bytes(seconds)?)?.checked_mul(1_000_000)?.checked_add(number(bytes(micros)?)?)?;
    (time <= LARGEST_TIME).then_some(time)
}

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// A score of whole microseconds; `None` if it is no such number.
pub(super) fn score(value: &Value) -> Option<u64> {
    let score = match value {
        Value::Double(score) => *score,
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok()?,
        _ => return None,
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    ((0.0..=LARGEST).contains(&score) && score.fract() == 0.0).then_some(score as u64)
}

/// Members with their scores.
pub(super) fn entries(value: &Value) -> Option<Vec<(&[u8], u64)>> {
    let Value::Array(items) = value else { return None };
    let nested = matches!(items.first(), Some(Value::Array(_)));
    let mut entries = Vec::new();
    for chunk in items.chunks(if nested { 1 } else { 2 }) {
        let pair = match chunk {
            [Value::Array(pair)] => pair,
            pair => pair,
        };
        let [member, of] = pair else { return None };
        entries.push((bytes(member)?, score(of)?));
    }
    Some(entries)
}

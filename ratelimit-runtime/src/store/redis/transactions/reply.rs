//! Replies to plain commands, as numbers. RESP2 and RESP3 differ in how they write scores.

use redis::{FromRedisValue, Value, from_redis_value_ref};

/// Up to this, scores are exact. No time, ticket or score that was ever written is larger.
const LARGEST: u64 = 1 << 53;

pub(super) fn read<T: FromRedisValue>(value: &Value) -> Option<T> {
    from_redis_value_ref(value).ok()
}

/// The reply to TIME, in microseconds.
pub(super) fn time(value: &Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = read(value)?;
    seconds.checked_mul(1_000_000)?.checked_add(micros).filter(|time| *time <= LARGEST)
}

/// A number of digits alone.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok().filter(|number| *number <= LARGEST)
}

/// A member of a sorted set with its score.
pub(super) type ScoredMember = (Vec<u8>, i64);

/// Members with scores of whole microseconds; `None` if one has another score.
pub(super) fn members(value: &Value) -> Option<Vec<ScoredMember>> {
    let members: Vec<(Vec<u8>, f64)> = read(value)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "checked to be in range")]
    let whole = |score: f64| (score.abs() <= LARGEST as f64 && score.fract() == 0.0).then_some(score as i64);
    members.into_iter().map(|(member, score)| Some((member, whole(score)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_read_alike_in_both_protocols() {
        let text = |text: &str| Value::BulkString(text.into());
        let pair = |member: &str, score| Value::Array(vec![text(member), Value::Double(score)]);
        let expected = Some(vec![(b"7".to_vec(), -7), (b"12e".to_vec(), 12)]);
        assert_eq!(members(&Value::Array(vec![text("7"), text("-7"), text("12e"), text("12")])), expected);
        assert_eq!(members(&Value::Array(vec![pair("7", -7.0), pair("12e", 12.0)])), expected);
        for foreign in ["nan", "inf", "1.5", "1e17", "x"] {
            assert_eq!(members(&Value::Array(vec![text("7"), text(foreign)])), None, "{foreign}");
        }
    }
}

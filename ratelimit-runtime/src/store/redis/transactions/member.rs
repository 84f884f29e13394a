//! The members of a log, as `sliding_window/script.lua` writes them.

use redis::{Value, from_redis_value_ref};

/// The score of a [`Meta`] is this and the end of its block.
const META_SCORE: u64 = 5_000_000_000_000_000;
/// Up to this, scores are exact. No time, ticket or score that was ever written is larger.
const LARGEST: u64 = 1 << 53;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    /// A unit of cost, which has a microsecond of its own. It is open if it was reserved by
    /// `count`, and neither committed nor released.
    Unit {
        ticket: u64,
        is_open: bool,
    },
    Meta(Meta),
}

/// What a log remembers beside its units, while there is a block, a strike or an open reservation,
/// or where the newest unit was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Meta {
    pub(super) newest: u64,
    /// How many blocks in a row.
    pub(super) strikes: u64,
    /// How long strikes are remembered after the block, in microseconds.
    pub(super) remembered: u64,
    /// The end of the last block.
    pub(super) ends: u64,
}

impl Member {
    /// The members in a reply with scores, which RESP2 and RESP3 write in two ways; `None` if one
    /// is not ours.
    pub(super) fn all_of(reply: &Value) -> Option<Vec<Self>> {
        let members: Vec<(String, f64)> = from_redis_value_ref(reply).ok()?;
        members.iter().map(|(member, score)| Self::of(member, *score)).collect()
    }

    fn of(member: &str, score: f64) -> Option<Self> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "checked to be in range")]
        let whole = (score.abs() <= LARGEST as f64 && score.fract() == 0.0).then_some(score as i64)?;
        let Some(numbers) = member.strip_prefix("meta:") else {
            // The last unit of an open estimate is marked by an `e`.
            let ticket = digits(member.strip_suffix('e').unwrap_or(member))?;
            return (whole.unsigned_abs() == ticket).then_some(Self::Unit { ticket, is_open: whole < 0 });
        };
        let numbers: Option<Vec<u64>> = numbers.split(':').map(digits).collect();
        let [newest, strikes, remembered] = *numbers?.as_slice() else { return None };
        let ends = u64::try_from(whole).ok()?.checked_sub(META_SCORE)?;
        Some(Self::Meta(Meta { newest, strikes, remembered, ends }))
    }

    /// By what it is sorted.
    pub(super) fn score(self) -> i64 {
        match self {
            Self::Unit { ticket, is_open } => {
                i64::try_from(ticket).map_or(0, |score| if is_open { -score } else { score })
            }
            Self::Meta(_) => i64::MAX,
        }
    }
}

impl Meta {
    pub(super) fn member(&self) -> String {
        format!("meta:{}:{}:{}", self.newest, self.strikes, self.remembered)
    }

    pub(super) fn score(&self) -> u64 {
        META_SCORE + self.ends
    }
}

/// A number of digits alone.
fn digits(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_members_are_read_back_and_others_are_not() {
        for (member, score, is_open) in [("17", 17.0, false), ("17e", 17.0, false), ("17", -17.0, true)] {
            assert_eq!(Member::of(member, score), Some(Member::Unit { ticket: 17, is_open }));
        }
        let meta = Meta { newest: 1_700_000_000_000_123, strikes: 12, remembered: 60, ends: 7 };
        assert_eq!((meta.member().as_str(), meta.score()), ("meta:1700000000000123:12:60", 5_000_000_000_000_007));
        assert_eq!(Member::of(&meta.member(), 5_000_000_000_000_007.0), Some(Member::Meta(meta)));
        for (foreign, score) in [
            ("17", 18.0),
            ("1e18", 1.0),
            ("17", 17.5),
            ("17", f64::NAN),
            ("", 0.0),
            ("+17", 17.0),
            ("meta:1:2:3", 17.0),
            ("meta:1:2", 5e15),
            ("meta:1:2:3:4", 5e15),
            ("meta:1::3", 5e15),
        ] {
            assert_eq!(Member::of(foreign, score), None, "{foreign} {score}");
        }
    }
}
